"""Convolutions by bilinear algorithms compute in ONNX Runtime what the plain convolution computes there."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from superopt.domains import Array
from superopt.errors import UnsupportedError
from superopt.generator.bilinear import filter_rules, filters
from superopt.ir import ElementType, Graph, Input, Plan, TensorType, Weight
from superopt.ir.dimensions import Dimension, symbol
from superopt.onnx_io import build_model, lift, load_model, lower
from superopt.onnx_io.emit import bilinear_form
from superopt.onnx_io.protos import dtype_of
from superopt.ops.bilinear.convolution import BilinearConv, FilterTransform
from superopt.ops.bilinear.filter_algorithms import FilterAlgorithm
from superopt.ops.elementwise.affine import BiasAdd
from superopt.ops.images.convolution import Conv
from superopt.ops.images.pooling import MaxPool
from superopt.ops.images.windows import Padding
from superopt.rewriting import apply_match, find_matches, substitutions_of
from tests.onnx_io.kit import operators, session
from tests.ops.algorithms import algorithm


@dataclass(frozen=True)
class Case:
    """A convolution, the outputs of tiles along rows and columns, and the taps of parts of the kernel: all
    of its taps where there is none."""

    name: str
    image: tuple[int, int, int, int]
    kernel: tuple[int, int, int, int]
    tiles: tuple[int, int]
    padding: Padding = "same"
    batch: Dimension | None = None
    biased: bool = True
    element: ElementType = ElementType.FLOAT
    opset: int = 17
    open_axes: tuple[int, ...] = ()
    pool: MaxPool | None = None
    parts: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)

    def __str__(self) -> str:
        return self.name

    @property
    def shape(self) -> tuple[Dimension, ...]:
        sizes = [
            symbol(f"axis{axis}") if axis in self.open_axes else size for axis, size in enumerate(self.image)
        ]
        return (sizes[0] if self.batch is None else self.batch, *sizes[1:])

    @property
    def algorithms(self) -> tuple[FilterAlgorithm, FilterAlgorithm]:
        rows, columns = map(algorithm, self.tiles, self.taps)
        return rows, columns

    @property
    def taps(self) -> tuple[int, int]:
        return self.parts[0] or self.kernel[2], self.parts[1] or self.kernel[3]

    @property
    def zeros(self) -> tuple[int, int]:
        return -self.kernel[2] % self.taps[0], -self.kernel[3] % self.taps[1]

    @property
    def weights(self) -> dict[str, Array]:
        generator = np.random.default_rng(0)
        dtype = dtype_of(self.element)
        return {
            "w": (generator.normal(size=self.kernel) / np.sqrt(np.prod(self.kernel[1:]))).astype(dtype),
            "b": generator.normal(size=self.kernel[:1]).astype(dtype),
        }

    def graph(self, tiles: tuple[int, int]) -> Graph:
        """The convolution in those tiles, or the plain one."""
        editor = Graph.empty().edit()
        image = editor.add(Input("x", TensorType(self.element, self.shape))).value
        if self.pool is not None:
            image = editor.add(self.pool, [image]).value
        kernel, bias = (
            editor.add(Weight(label, TensorType(self.element, array.shape))).value
            for label, array in self.weights.items()
        )
        if any(tiles):
            rows, columns = self.algorithms
            kernel = editor.add(FilterTransform(rows, columns, self.zeros), [kernel]).value
            tiled = BilinearConv(rows, columns, self.padding, self.zeros, self.dilation)
            result = editor.add(tiled, [image, kernel]).value
        else:
            plain = Conv(padding=self.padding, dilation=self.dilation)
            result = editor.add(plain, [image, kernel]).value
        if self.biased:
            result = editor.add(BiasAdd(1), [result, bias]).value
        editor.set_outputs([result])
        return editor.build()

    def built(self, tiles: tuple[int, int]) -> bytes:
        return build_model(self.graph(tiles), self.weights, self.opset)


ROWS = Case("rows", (1, 6, 12, 10), (8, 6, 3, 3), (4, 0))
COLUMNS = Case("columns", (1, 6, 12, 12), (8, 6, 3, 3), (0, 4))
BOTH = Case("both", (1, 6, 12, 8), (8, 6, 3, 3), (4, 4))
SEQUENCE = Case("sequence", (1, 6, 1, 30), (8, 6, 1, 5), (0, 6))
FEWER = Case("fewer outputs", (1, 8, 12, 10), (4, 8, 3, 3), (4, 0))
PARTS = Case("parts", (1, 6, 13, 12), (8, 6, 5, 3), (2, 0), parts=(2, 0))
LONG = Case("parts of a sequence", (1, 6, 1, 45), (8, 6, 1, 11), (0, 4), parts=(0, 4))
APART = Case("dilation of a sequence", (1, 6, 1, 45), (8, 6, 1, 5), (0, 4), dilation=(1, 3))
DILATED = (
    APART,
    replace(APART, name="dilation of a sequence, both", dilation=(2, 3)),
    replace(APART, name="dilation of a sequence, whole phases", image=(1, 6, 1, 42)),
    replace(APART, name="dilation of a sequence, uneven padding", padding=(0, 4, 0, 9)),
    replace(APART, name="dilation of a sequence, uneven multiples", padding=(0, 9, 0, 3)),
    replace(APART, name="dilation of a sequence, valid", padding="valid"),
    replace(APART, name="dilation of a sequence, causal", padding=(0, 12, 0, 0)),
    replace(APART, name="dilation of a sequence, batch", image=(3, 6, 1, 31), batch=symbol("n")),
    replace(APART, name="dilation of a sequence, parts", kernel=(8, 6, 1, 11), parts=(0, 4)),
    replace(APART, name="dilation of a sequence, groups", kernel=(9, 2, 1, 5), biased=False),
    replace(APART, name="dilation of a sequence, fewer outputs", kernel=(4, 6, 1, 5)),
    replace(APART, name="dilation of a sequence, f64", element=ElementType.DOUBLE),
    replace(
        APART,
        name="dilation of a column",
        image=(2, 6, 45, 1),
        kernel=(8, 6, 5, 1),
        tiles=(4, 0),
        dilation=(3, 1),
    ),
    replace(APART, name="dilation of a short sequence", image=(1, 6, 1, 3)),
)
DILATED_IMAGES = (
    *(
        replace(
            case,
            name=f"dilation, {case.name}, {padding}",
            image=(2, 6, 13, 11),
            padding=padding,
            dilation=dilation,
        )
        for case in (ROWS, COLUMNS, BOTH)
        for dilation in ((2, 2), (1, 3))
        for padding in ("same", "valid", (2, 0, 1, 6))
    ),
    replace(APART, name="dilation, an algorithm for one row", tiles=(2, 4)),
    replace(BOTH, name="dilation, unknown batch", image=(3, 6, 11, 10), batch=symbol("n"), dilation=(2, 2)),
    replace(BOTH, name="dilation, older operators", image=(1, 6, 11, 10), opset=9, dilation=(2, 3)),
)
CASES = (
    ROWS,
    COLUMNS,
    BOTH,
    SEQUENCE,
    FEWER,
    replace(FEWER, name="fewer outputs, columns", tiles=(0, 2)),
    replace(FEWER, name="fewer outputs, no bias", biased=False),
    replace(FEWER, name="fewer outputs, groups", kernel=(4, 4, 3, 3)),
    replace(FEWER, name="fewer outputs, older operators", opset=9),
    replace(BOTH, name="fewer outputs, both", kernel=(4, 6, 3, 3)),
    replace(ROWS, name="no bias", biased=False),
    replace(BOTH, name="groups", kernel=(9, 2, 3, 3)),
    replace(BOTH, name="uneven padding", padding=(2, 0, 1, 3)),
    replace(ROWS, name="uneven padding, rows", padding=(2, 0, 1, 3)),
    replace(COLUMNS, name="uneven padding, columns", padding=(2, 0, 1, 3)),
    replace(BOTH, name="automatic padding", padding="same_lower"),
    replace(BOTH, name="no padding", padding="valid"),
    replace(ROWS, name="partial tiles, rows", image=(1, 6, 11, 10)),
    replace(COLUMNS, name="partial tiles, columns", image=(1, 6, 11, 9)),
    replace(BOTH, name="partial tiles", image=(1, 6, 11, 10)),
    replace(BOTH, name="partial tiles, older operators", image=(1, 6, 11, 10), opset=9),
    replace(BOTH, name="one partial tile", image=(1, 6, 2, 3)),
    replace(BOTH, name="different tiles", tiles=(2, 6), kernel=(8, 6, 5, 3)),
    replace(ROWS, name="one output for each tile", tiles=(1, 0)),
    replace(ROWS, name="one column", image=(1, 6, 12, 1), kernel=(8, 6, 3, 1)),
    replace(BOTH, name="five taps", kernel=(8, 6, 5, 5)),
    replace(BOTH, name="two taps", kernel=(8, 6, 2, 2), padding="valid"),
    replace(BOTH, name="six outputs", tiles=(6, 6), image=(1, 6, 13, 11)),
    replace(BOTH, name="batch", image=(2, 6, 11, 10)),
    replace(ROWS, name="batch, rows", image=(3, 6, 11, 10)),
    replace(FEWER, name="batch, fewer outputs", image=(2, 8, 11, 10)),
    replace(BOTH, name="unknown batch", image=(3, 6, 11, 10), batch=symbol("n")),
    replace(ROWS, name="unknown batch, rows", image=(2, 6, 11, 10), batch=symbol("n")),
    replace(BOTH, name="f64", element=ElementType.DOUBLE),
    replace(SEQUENCE, name="f64, sequence", image=(2, 6, 1, 31), element=ElementType.DOUBLE),
    replace(BOTH, name="f16", element=ElementType.FLOAT16, tiles=(2, 2)),
    PARTS,
    LONG,
    replace(PARTS, name="parts, both", kernel=(8, 6, 5, 7), tiles=(2, 3), parts=(2, 3)),
    replace(PARTS, name="parts, uneven padding", padding=(2, 0, 3, 1)),
    replace(PARTS, name="parts, fewer outputs", kernel=(4, 3, 5, 3)),
    replace(PARTS, name="parts, no zeros", kernel=(8, 6, 6, 3), padding="same_upper"),
    replace(PARTS, name="parts further than a tile", tiles=(2, 0), kernel=(8, 6, 7, 3), parts=(4, 0)),
    replace(LONG, name="parts of a sequence, batch", image=(3, 6, 1, 42), batch=symbol("n")),
    replace(LONG, name="parts of a sequence, six outputs", tiles=(0, 6), parts=(0, 6)),
    replace(LONG, name="parts of a sequence, older operators", opset=9),
    replace(LONG, name="parts of a sequence, f64", element=ElementType.DOUBLE),
    replace(LONG, name="parts of a short sequence", image=(1, 6, 1, 3)),
    *DILATED,
    *DILATED_IMAGES,
)
TOLERANCES = {ElementType.FLOAT: 2e-5, ElementType.DOUBLE: 1e-12, ElementType.FLOAT16: 2e-2}


def run(content: bytes, image: Array) -> list[Array]:
    """In ONNX Runtime; it has no convolutions in double precision, which ONNX's reference computes."""
    if image.dtype == np.float64:
        return ReferenceEvaluator(onnx.load_from_string(content)).run(None, {"x": image})
    return session(content).run(None, {"x": image})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_computes_the_plain_convolution(case: Case) -> None:
    built, plain = case.built(case.tiles), case.built((0, 0))
    onnx.checker.check_model(built, full_check=True)
    image = np.random.default_rng(1).normal(size=case.image).astype(dtype_of(case.element))
    (got,), (expected,) = (run(content, image) for content in (built, plain))
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCES[case.element] * np.abs(expected).max())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_bias_is_added_before_tiles_are_transformed_back(case: Case) -> None:
    assert "Add" not in operators(case.built(case.tiles)).split()


TALL = (
    *(replace(case, image=(2, 6, 61, 10)) for case in (ROWS, COLUMNS, BOTH)),
    replace(FEWER, image=(1, 8, 62, 10)),
    replace(ROWS, name="rows, valid", image=(1, 6, 61, 10), padding="valid"),
    replace(BOTH, name="both, unknown batch", image=(2, 6, 61, 10), batch=symbol("n")),
    replace(BOTH, name="both, old operator set", image=(1, 6, 61, 10), opset=9),
    replace(PARTS, image=(1, 6, 61, 10)),
    replace(PARTS, name="parts, both", image=(1, 6, 61, 10), kernel=(8, 6, 5, 7), tiles=(2, 3), parts=(2, 3)),
    replace(BOTH, name="dilation", image=(2, 6, 121, 10), dilation=(2, 2)),
    replace(APART, image=(1, 6, 1, 181)),
)


@pytest.mark.parametrize("case", TALL, ids=str)
def test_a_large_image_is_computed_in_strips(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bilinear_form, "LEAST_BYTES_IN_STRIPS", 1)
    monkeypatch.setattr(bilinear_form, "STRIP_BYTES", 1)
    test_it_computes_the_plain_convolution(case)
    written = operators(case.built(case.tiles)).split()
    assert "Concat" in written[written.index("MatMul") :]
    assert written.count("Slice") > 2


@pytest.mark.parametrize("case", [ROWS, COLUMNS, BOTH, SEQUENCE, FEWER], ids=str)
def test_an_open_batch_may_be_empty(case: Case) -> None:
    case = replace(case, batch=symbol("n"))
    image = np.zeros((0, *case.image[1:]), np.float32)
    (got,), (expected,) = (run(case.built(tiles), image) for tiles in (case.tiles, (0, 0)))
    assert got.shape == expected.shape


def test_nodes_for_rows() -> None:
    """A convolution for each point, one for all, and a single axis moved."""
    assert operators(ROWS.built((4, 0))) == " ".join(
        ["Mul", "Reshape"]
        + ["Conv"] * 6
        + ["Concat", "Conv", "Reshape", "MatMul", "Reshape", "Transpose", "Reshape"]
    )


DOUBLE = ElementType.DOUBLE
OPEN = [case for case in CASES if case.opset >= 10 and case.image[2] > 1 and case.dilation == (1, 1)]
OPEN_SEQUENCES = [LONG, *DILATED]


@pytest.mark.parametrize("case", OPEN_SEQUENCES, ids=str)
def test_the_length_of_a_sequence_may_be_open(case: Case) -> None:
    axis = 3 if case.image[2] == 1 else 2
    case = replace(case, open_axes=(axis,))
    built, plain = case.built(case.tiles), case.built((0, 0))
    onnx.checker.check_model(built, full_check=True)
    models = [session(content) for content in (built, plain)] if case.element is not DOUBLE else []
    least = case.dilation[axis - 2] * (case.kernel[axis] - 1) + 1 if case.padding == "valid" else 1
    for length in (*range(least, least + 16), 30, 57, 100):
        shape = [length if number == axis else size for number, size in enumerate(case.image)]
        image = np.random.default_rng(1).normal(size=shape).astype(dtype_of(case.element))
        try:
            (expected,) = models[1].run(None, {"x": image}) if models else run(plain, image)
        except Exception:  # noqa: BLE001 - a window does not fit
            continue
        (got,) = models[0].run(None, {"x": image}) if models else run(built, image)
        assert got.shape == expected.shape
        limit = TOLERANCES[case.element] * np.abs(expected).max()
        np.testing.assert_allclose(got, expected, rtol=0, atol=limit)


def test_an_image_with_a_dilation_has_known_sizes() -> None:
    case = replace(BOTH, open_axes=(2,), dilation=(2, 2))
    with pytest.raises(UnsupportedError, match="bilinear_conv: expected an image of known size"):
        case.built(case.tiles)


@pytest.mark.parametrize("axes", [(2,), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("case", OPEN, ids=str)
def test_sizes_of_the_image_may_be_open(case: Case, axes: tuple[int, ...]) -> None:
    """Every number of outputs of the last tile, and images smaller than a tile."""
    case = replace(case, open_axes=axes)
    built, plain = case.built(case.tiles), case.built((0, 0))
    onnx.checker.check_model(built, full_check=True)
    models = [session(content) for content in (built, plain)] if case.element is not DOUBLE else []
    generator = np.random.default_rng(1)
    for more in range(-case.kernel[2] + 2, 7):
        shape = [size + more * (axis in axes) for axis, size in enumerate(case.image)]
        if min(shape) < 1:
            continue
        image = generator.normal(size=shape).astype(dtype_of(case.element))
        (got,), (expected,) = (
            [model.run(None, {"x": image}) for model in models]
            if models
            else [run(content, image) for content in (built, plain)]
        )
        assert got.shape == expected.shape
        limit = TOLERANCES[case.element] * np.abs(expected).max()
        np.testing.assert_allclose(got, expected, rtol=0, atol=limit)


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (3, 3)])
@pytest.mark.parametrize("case", [ROWS, COLUMNS, BOTH], ids=str)
def test_an_image_may_be_smaller_than_the_window_of_a_pooling_before(
    case: Case, kernel: int, stride: int
) -> None:
    """Then the pooling has one output in ONNX Runtime, and so have the sizes that follow from it."""
    pool = MaxPool(kernel=(kernel, kernel), stride=(stride, stride))
    case = replace(case, open_axes=(2, 3), pool=pool)
    models = [session(case.built(tiles)) for tiles in (case.tiles, (0, 0))]
    fitting = [size for size in (1, 2, 3, 4, 7, 20) if size > kernel - stride]
    for sizes in itertools.product(fitting, repeat=2):
        image = np.random.default_rng(1).normal(size=(1, 6, *sizes)).astype(np.float32)
        (got,), (expected,) = (model.run(None, {"x": image}) for model in models)
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


def test_all_but_channels_may_be_open_and_the_batch_empty() -> None:
    case = replace(BOTH, batch=symbol("n"), open_axes=(2, 3))
    models = [case.built(tiles) for tiles in (case.tiles, (0, 0))]
    for shape in [(0, 6, 9, 7), (1, 6, 9, 7), (2, 6, 1, 2), (3, 6, 8, 13)]:
        image = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        (got,), (expected,) = (run(content, image) for content in models)
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5 * np.abs(expected).max(initial=0))


def test_sizes_must_be_known_before_operator_set_10() -> None:
    case = replace(BOTH, open_axes=(2,), opset=9)
    with pytest.raises(UnsupportedError, match="bilinear_conv: ONNX needs a known size here, got axis2"):
        case.built(case.tiles)


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_the_rank_of_the_result_is_declared(opset: int) -> None:
    """Before operator set 14, ONNX Runtime refuses a Resize to the shape of a tensor without one."""
    given = onnx.parser.parse_model(
        f'<ir_version: 7, opset_import: ["" : {opset}]>'
        "g (float[1, 6, h, w] x, float[1, 6, p, q] z) => (float[a, b, c, d] y)"
        "{ k = Conv <pads = [1, 1, 1, 1]> (x, kernel) s = Shape(k)"
        ' u = Resize <mode = "nearest"> (z, none, none, s) y = Add(k, u) }'
    )
    contents = {"kernel": BOTH.weights["w"][:6], "none": np.zeros(0, np.float32)}
    given.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in contents.items())
    lifted = lift(load_model(given))
    (rule,) = substitutions_of(next(filter_rules(filters(2, 3)[0])).equation, "F(2,3)")
    match = next(iter(find_matches(lifted.graph, rule)))
    rewrite = apply_match(lifted.graph, match)
    assert rewrite is not None
    written = lower(lifted, rewrite.graph, Plan()).to_proto()
    random = np.random.default_rng(0)
    feeds = {
        name: random.normal(size=(1, 6, *sizes)).astype(np.float32)
        for name, sizes in (("x", (9, 10)), ("z", (4, 5)))
    }
    (expected,), (got,) = (session(model.SerializeToString()).run(None, feeds) for model in (given, written))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
