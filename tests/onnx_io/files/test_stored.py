"""Contents of stored tensors are those that onnx-ir, as a second implementation, reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.onnx_io.files.external import stored_tensor
from superopt.onnx_io.files.stored import ArrayTensor, StoredTensor, proto_of

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
        for tensor in (*stored, ArrayTensor.of(array_of(kind, shape))):
            assert (tensor.data_type, tensor.shape) == (kind, shape)
            assert (tensor.size, tensor.nbytes) == (expected.size, expected.nbytes)
            np.testing.assert_array_equal(tensor.numpy(), expected.numpy())
            assert tensor.numpy().dtype == expected.numpy().dtype
            assert tensor.tobytes() == expected.tobytes()
            made = proto_of(tensor, "made")
            assert made.name == "made"
            np.testing.assert_array_equal(numpy_helper.to_array(made), expected.numpy())


def test_strings_are_bytes() -> None:
    tensor = stored_tensor(helper.make_tensor("s", TensorProto.STRING, (1, 2), ["é", ""]), Path())
    assert tensor.numpy().tolist() == [["é".encode(), b""]]
    assert (tensor.size, tensor.nbytes) == (2, 0)
