"""Contents of stored tensors are those that onnx-ir, as a second implementation, reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.onnx_io.files.external import stored_tensor
from superopt.onnx_io.files.stored import ArrayTensor, MappedTensor, SpilledTensor, StoredTensor, proto_of

NUMBERS = [kind for kind in TensorProto.DataType.values()[1:] if kind != TensorProto.STRING]
SHAPES = ((5,), (2, 3), (), (0, 2))


def array_of(kind: int, shape: tuple[int, ...]) -> np.ndarray:
    numbers = 1 - np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2 / 2
    return numbers.astype(helper.tensor_dtype_to_np_dtype(kind))


def forms(kind: int, shape: tuple[int, ...], directory: Path) -> list[tuple[TensorProto, Path]]:
    """The same tensor as raw data, as numbers, and in a file behind other bytes."""
    array = array_of(kind, shape)
    raw = numpy_helper.from_array(array)
    is_complex = kind in (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
    numbers = array.astype(np.complex64 if is_complex else np.float32).reshape(-1).tolist()
    typed = helper.make_tensor("", kind, shape, numbers)
    (directory / "weights").write_bytes(b"\xff" * 7 + raw.raw_data)
    outside = TensorProto(data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights"), ("offset", "7"), ("length", str(len(raw.raw_data)))):
        outside.external_data.add(key=key, value=value)
    return [(raw, Path()), (typed, Path()), (outside, directory)]


@pytest.mark.parametrize("kind", NUMBERS, ids=TensorProto.DataType.Name)
def test_every_form_holds_the_same_numbers(kind: int, tmp_path: Path) -> None:
    for shape in SHAPES:
        expected = onnx_ir.serde.deserialize_tensor(numpy_helper.from_array(array_of(kind, shape)))
        stored: list[StoredTensor] = [stored_tensor(*form) for form in forms(kind, shape, tmp_path)]
        if array_of(kind, shape).dtype.kind in "biuf":
            stored.append(SpilledTensor.of(array_of(kind, shape)))
        for tensor in (*stored, ArrayTensor.of(array_of(kind, shape))):
            assert (tensor.data_type, tensor.shape) == (kind, shape)
            assert (tensor.size, tensor.nbytes) == (expected.size, expected.nbytes)
            np.testing.assert_array_equal(tensor.numpy(), expected.numpy())
            assert tensor.numpy().dtype == expected.numpy().dtype
            assert tensor.tobytes() == expected.tobytes()
            made = proto_of(tensor, "made")
            assert made.name == "made"
            np.testing.assert_array_equal(numpy_helper.to_array(made), expected.numpy())


def test_a_computed_tensor_is_in_a_file_as_long_as_it_exists() -> None:
    array = np.arange(3 << 20, dtype=np.float64).reshape(-1, 3).T
    tensor = SpilledTensor.of(array)
    path = tensor.path
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert path.stat().st_size == array.nbytes
    del tensor
    assert not path.exists()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_large_tensors_are_mapped_only_while_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(5000) + np.arange(1 << 16, dtype=np.float32).tobytes())
    tensor = MappedTensor(TensorProto.FLOAT, (1 << 16,), path, 5000)
    read = tensor.numpy()
    assert is_mapped(path)
    assert read[-1] == (1 << 16) - 1
    del read
    assert not is_mapped(path)


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_strings_are_bytes() -> None:
    tensor = stored_tensor(helper.make_tensor("s", TensorProto.STRING, (1, 2), ["é", ""]), Path())
    assert tensor.numpy().tolist() == [["é".encode(), b""]]
    assert (tensor.size, tensor.nbytes) == (2, 0)
