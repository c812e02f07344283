"""Random inputs by what they are for, and sizes for the dimensions that a model leaves open."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from superopt.onnx_io import lift, load_model
from superopt.optimizer.check import InputPlan, declared_ports, guess_sizes, plan_inputs, settle_sizes
from superopt.optimizer.check.guesses import example
from superopt.optimizer.check.roles import (
    Choice,
    Fixed,
    Image,
    Integers,
    Lengths,
    Mask,
    Numbers,
    Positions,
    Role,
    State,
    Uniform,
)
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.optimizer.pipeline.runnable import why_refused
from tests.onnx_io.kit import graph, model, node, tensor, value, weight

FLOAT, INT64, INT32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
STRING, UINT8 = TensorProto.STRING, TensorProto.UINT8


@dataclass(frozen=True)
class Case:
    """A model and what its inputs are for."""

    name: str
    model: onnx.ModelProto
    roles: Mapping[str, Role]


def encoder() -> onnx.ModelProto:
    """The inputs of a transformer, read as exporters write it: the mask becomes a number to be added."""
    return model(
        [
            node("Gather", "words input_ids", "word"),
            node("Gather", "types token_type_ids", "type"),
            node("Gather", "places position_ids", "place"),
            node("Equal", "input_ids pad", "is_pad"),
            node("Unsqueeze", "attention_mask axes", "wide"),
            node("Cast", "wide", "numbers", to=FLOAT),
            node("Sub", "one numbers", "absent"),
            node("Mul", "absent least", "added"),
            node("Add", "word type", "sum"),
            node("Add", "sum place", "hidden"),
            node("Add", "hidden added", "y"),
        ],
        [value(n, ["batch", "seq"], INT64)
         for n in ("input_ids", "token_type_ids", "position_ids", "attention_mask")],
        [value("y", ["batch", "seq", 8]), value("is_pad", ["batch", "seq"], BOOL)],
        [weight("words", 99, 8), weight("types", 2, 8), weight("places", 64, 8), tensor("one", 1.0),
         tensor("least", -10000.0), tensor("pad", 1, np.int64), tensor("axes", [-1], np.int64)],
    )  # fmt: skip


def voice_detector() -> onnx.ModelProto:
    """A recurrent network that is chosen by the sampling rate."""
    then = graph([node("Identity", "x", "a")], [], [value("a", ["batch", "samples"])])
    other = graph([node("Neg", "x", "b")], [], [value("b", ["batch", "samples"])])
    return model(
        [node("Equal", "sr rate", "is"), node("If", "is", "y", then_branch=then, else_branch=other),
         node("Tanh", "state", "next")],
        [value("x", ["batch", "samples"]), value("state", [2, "batch", 128]), value("sr", [], INT64)],
        [value("y", ["batch", "samples"]), value("next", [2, "batch", 128])],
        [tensor("rate", 16000, np.int64)],
    )  # fmt: skip


def recurrent() -> onnx.ModelProto:
    return model(
        [node("LSTM", "x w r - lens h0 c0", "y", hidden_size=4)],
        [value("x", ["time", "n", 3]), value("lens", ["n"], INT32), value("h0", [1, "n", 4]),
         value("c0", [1, "n", 4])],
        [value("y", ["time", 1, "n", 4])],
        [weight("w", 1, 16, 3), weight("r", 1, 16, 4)],
    )  # fmt: skip


def boxes() -> onnx.ModelProto:
    return model(
        [node("NonMaxSuppression", "boxes scores most iou_threshold score_threshold", "y")],
        [value("boxes", [1, "n", 4]), value("scores", [1, 2, "n"]), value("most", [1], INT64),
         value("iou_threshold", [1]), value("score_threshold", [1])],
        [value("y", ["found", 3], INT64)],
    )  # fmt: skip


def one(
    op: str, element: int, shape: Sequence[int | str], out: int | None = None, **rest: object
) -> onnx.ModelProto:
    """One node that reads ``x``."""
    return model(
        [node(op, "x", "y", **rest)], [value("x", shape, element)], [value("y", shape, out or element)]
    )


def counted_loop() -> onnx.ModelProto:
    """Doubles a tensor so many times."""
    body = graph(
        [node("Identity", "go", "goes"), node("Add", "v v", "w")],
        [value("i", [], INT64), value("go", [], BOOL), value("v", [2])],
        [value("goes", [], BOOL), value("w", [2])],
    )
    return model(
        [node("Loop", "count - x", "y", body=body)],
        [value("count", [], INT64), value("x", [2])],
        [value("y", [2])],
    )


def one_hot() -> onnx.ModelProto:
    return model(
        [node("Unsqueeze", "x axes", "wide"), node("Equal", "wide classes", "is"),
         node("Cast", "is", "y", to=FLOAT)],
        [value("x", ["n", 4], INT32)],
        [value("y", ["n", 4, 10])],
        [tensor("axes", [2], np.int64), tensor("classes", range(10), np.int32)],
    )  # fmt: skip


def categories() -> onnx.ModelProto:
    return model(
        [node("LabelEncoder", "x", "y", domain="ai.onnx.ml", keys_strings=["red", "green"],
              values_int64s=[0, 1])],
        [value("x", ["n", 1], STRING)],
        [value("y", ["n", 1], INT64)],
        domains={"ai.onnx.ml": 2},
    )  # fmt: skip


def root_of_quotient() -> onnx.ModelProto:
    return model(
        [node("Div", "a b", "q"), node("Pow", "c half", "p"), node("Pow", "d two", "s"),
         node("Sum", "q p s", "y")],
        [value(n, [2, 3]) for n in "abcd"],
        [value("y", [2, 3])],
        [tensor("half", 0.5), tensor("two", 2.0)],
    )  # fmt: skip


def phonemes() -> onnx.ModelProto:
    return model(
        [node("Gather", "table input", "e"), node("Cast", "input_lengths", "f", to=FLOAT),
         node("ReduceMean", "e", "m", axes=[1, 2], keepdims=0), node("Mul", "m f", "y")],
        [value("input", ["batch", "phonemes"], INT64), value("input_lengths", ["batch"], INT64)],
        [value("y", ["batch"])],
        [weight("table", 30, 4)],
    )  # fmt: skip


def sizes_as_inputs() -> onnx.ModelProto:
    """A tensor is given another shape, made larger, cut and squeezed, all as the caller says."""
    return model(
        [node("Reshape", "x shape", "r"), node("Resize", "r - scales", "z"),
         node("Split", "z parts", "a b", axis=2), node("Squeeze", "a axes", "y")],
        [value("x", [24]), value("shape", [4], INT64), value("scales", [4]), value("parts", [2], INT64),
         value("axes", [1], INT64)],
        [value("y", [3, 1, 4]), value("b", [1, 3, 7, 4])],
    )  # fmt: skip


def sized(made: onnx.ModelProto, **shapes: Sequence[int]) -> onnx.ModelProto:
    """The model with declared shapes of tensors inside."""
    made.graph.value_info.extend(value(name, shape) for name, shape in shapes.items())
    return made


CASES = (
    Case(
        "sizes, factors and axes", sized(sizes_as_inputs(), r=[1, 3, 4, 2], z=[1, 3, 8, 4], a=[1, 3, 1, 4]),
        {"x": Numbers(), "shape": Fixed((1, 3, 4, 2)), "scales": Fixed((1.0, 1.0, 2.0, 2.0)),
         "parts": Fixed((1, 7)), "axes": Fixed((0, 2))},
    ),
    Case(
        "encoder", encoder(),
        {"input_ids": Integers(0, 99), "token_type_ids": Integers(0, 2), "position_ids": Positions(64),
         "attention_mask": Mask()},
    ),
    Case(
        "voice", voice_detector(),
        {"x": Numbers(), "state": State(), "sr": Choice((16000,), (8000, 32000))},
    ),
    Case("recurrent", recurrent(), {"x": Numbers(), "lens": Lengths("time"), "h0": State(), "c0": State()}),
    Case(
        "boxes", boxes(),
        {"boxes": Numbers(), "scores": Numbers(), "most": Integers(5, 100),
         "iou_threshold": Uniform(0.3, 1.0), "score_threshold": Uniform(0.3, 1.0)},
    ),
    Case("image", one("Relu", FLOAT, ["n", 3, "h", "w"]), {"x": Image()}),
    Case("pixels", one("Cast", UINT8, ["n", 3, "h", "w"], FLOAT, to=FLOAT), {"x": Integers(0, 256)}),
    Case("truth values", one("Not", BOOL, ["n", 4]), {"x": Mask()}),
    Case("logarithm", one("Log", FLOAT, ["n", 4]), {"x": Uniform(0.05, 1.0)}),
    Case("arc sine", one("Asin", FLOAT, ["n", 4]), {"x": Uniform(-0.95, 0.95)}),
    Case("one-hot", one_hot(), {"x": Integers(0, 10)}),
    Case("trip count", counted_loop(), {"count": Integers(4, 12), "x": Numbers()}),
    Case("categories", categories(), {"x": Choice(("red", "green"))}),
    Case(
        "divisors and roots", root_of_quotient(),
        {"a": Numbers(), "b": Uniform(0.05, 1.0), "c": Uniform(0.05, 1.0), "d": Numbers()},
    ),
    Case("lengths", phonemes(), {"input": Integers(0, 30), "input_lengths": Lengths("phonemes")}),
)  # fmt: skip


def plan_of(made: onnx.ModelProto, **given: int) -> InputPlan:
    lifted = lift(load_model(made))
    return plan_inputs(lifted, declared_ports(lifted), given)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_inputs_are_for(case: Case) -> None:
    assert plan_of(case.model).roles == case.roles


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_model_runs_on_what_is_drawn(case: Case) -> None:
    plan = plan_of(case.model)
    loaded = LoadedModel(case.model.SerializeToString(), 1)
    sizes = next(plan.size_choices())
    for scale in ("normal", "positive", "small", "large"):
        outputs = loaded.run(plan.draw(np.random.default_rng(0), sizes, scale))
        assert all(np.isfinite(output).all() for output in outputs if output.dtype.kind == "f")  # type: ignore[attr-defined]


def test_a_mask_keeps_a_position_of_every_row() -> None:
    drawn = np.asarray(Mask().draw(np.random.default_rng(0), (50, 1, 7), "normal", {}))
    assert drawn[..., 0].all()
    assert not drawn.all()
    assert (np.diff(drawn.astype(int)) <= 0).all()


def test_lengths_are_within_the_length() -> None:
    drawn = np.asarray(Lengths("seq").draw(np.random.default_rng(0), (50,), "normal", {"seq": 9}))
    assert (drawn[0], drawn.min() >= 1, drawn.max()) == (9, True, 9)


def test_positions_count_up() -> None:
    drawn = np.asarray(Positions(4).draw(np.random.default_rng(0), (2, 5), "normal", {}))
    assert drawn.tolist() == [[0, 1, 2, 3, 0]] * 2


def inputs(**shapes: Sequence[int | str | None] | None) -> onnx.ModelProto:
    """A model that reads floating point inputs of these shapes one by one."""
    return model(
        [node("Relu", name, f"{name}_out") for name in shapes],
        [value(name, shape) for name, shape in shapes.items()],
        [value(f"{name}_out", shape) for name, shape in shapes.items()],
    )


def layer() -> onnx.ModelProto:
    return model(
        [node("Gemm", "x w", "y", transB=1)], [value("x", [None, None])], [value("y", [None, 5])],
        [weight("w", 5, 11)],
    )  # fmt: skip


GUESSES = (
    ("images", inputs(x=["batch", 3, "height", "width"]), {"batch": 1, "height": 224, "width": 224}),
    ("names that PyTorch made up", inputs(x=["s6", 80, "s53"]), {"s6": 1, "s53": 128}),
    ("unnamed images", inputs(x=[None, 3, "?", "?"]), {"x.0": 1, "x.2": 224, "x.3": 224}),
    ("channels last", inputs(x=["n", None, None, 3]), {"n": 1, "x.1": 224, "x.2": 224}),
    ("a line of text", inputs(x=["n", 1, 48, "w"]), {"n": 1, "w": 192}),
    ("tokens", encoder(), {"batch": 1, "seq": 128}),
    ("unnamed inputs", inputs(a=[None, None], b=[None, None]), {"a.0": 1, "a.1": 128, "b.0": 1, "b.1": 128}),
    ("sound", inputs(audio=["n", "t_samples"]), {"n": 1, "t_samples": 16000}),
    ("sound of N samples", inputs(waveforms=["b", "N"]), {"b": 1, "N": 16000}),
    ("time before the batch", inputs(x=["time", "n", 3], s=["n", 4]), {"time": 128, "n": 1}),
    (
        "sound by its rate, and a state",
        inputs(x=[None, None], state=[2, None, 64], sr=[1]),
        {"x.0": 1, "x.1": 16000, "state.1": 1},
    ),
    ("a sum", inputs(x=["n", "past"], m=["n", "past + 1"]), {"n": 1, "past": 16, "past + 1": 17}),
    (
        "a decoder with a past",
        inputs(
            ids=["b", "seq_length"],
            past=["b", 2, "past_seq_length", 4],
            mask=["b", "total_seq_length"],
            half=["b", "seq_length / 2"],
        ),
        {"b": 1, "seq_length": 128, "past_seq_length": 16, "total_seq_length": 144, "seq_length / 2": 64},
    ),
    (
        "a graph",
        inputs(kind=["num_atoms"], ends=[2, "num_edges"]),
        {"num_atoms": 128, "num_edges": 128},
    ),
    ("features that a layer asks for", layer(), {"x.0": 1, "x.1": 11}),
)


@pytest.mark.parametrize(("made", "sizes"), [case[1:] for case in GUESSES], ids=[case[0] for case in GUESSES])
def test_usual_sizes(made: onnx.ModelProto, sizes: Mapping[str, int]) -> None:
    found = guess_sizes(lift(load_model(made)), {})
    assert (found.sizes, found.guessed) == (sizes, tuple(sizes))


def test_sizes_that_were_given_are_not_guessed() -> None:
    found = guess_sizes(lift(load_model(encoder())), {"seq": 7})
    assert (found.sizes, found.guessed) == ({"batch": 1, "seq": 7}, ("batch",))
    others = list(found.plan.size_choices())[:3]
    assert others[0] == {"batch": 1, "seq": 7}
    assert {sizes["seq"] for sizes in others} == {7}
    assert {sizes["batch"] for sizes in others} == {1, 2, 3}


def test_larger_batches_are_tried_at_last() -> None:
    """Of a model that takes the four largest of ``n`` numbers."""
    made = model(
        [node("TopK", "x k", "y i", axis=0)],
        [value("x", ["n"])],
        [value("y", [None]), value("i", [None], INT64)],
        [tensor("k", [4], np.int64)],
    )
    lifted = lift(load_model(made))
    sizing = settle_sizes(
        lifted, plan_of(made), (), lambda: LoadedModel(made.SerializeToString(), 1), time.monotonic() + 60
    )
    assert (sizing.runs, sizing.sizes) == (True, {"n": 16})


def test_the_first_sizes_that_the_model_runs_at() -> None:
    """A layer behind a Reshape that only 64 fits, which no declared shape says."""
    made = model(
        [node("Gather", "table ids", "e"), node("Add", "e places", "y")],
        [value("ids", ["n", "seq"], INT64)],
        [value("y", ["n", "seq", 2])],
        [weight("table", 9, 2), weight("places", 1, 64, 2)],
    )
    lifted = lift(load_model(made))
    loaded = LoadedModel(made.SerializeToString(), 1)
    plan = plan_inputs(lifted, declared_ports(lifted), {})
    settled = settle_sizes(lifted, plan, (), lambda: loaded, time.monotonic() + 60)
    assert (settled.sizes, settled.runs) == ({"n": 1, "seq": 64}, True)
    impossible = plan_inputs(lifted, declared_ports(lifted), {"seq": 5})
    refused = settle_sizes(lifted, impossible, (), lambda: loaded, time.monotonic() + 60)
    assert refused.runs is False


def test_sizes_are_those_of_given_inputs() -> None:
    lifted = lift(load_model(inputs(x=["n", None, 3])))
    plan = plan_inputs(lifted, declared_ports(lifted), {})

    def never() -> LoadedModel:
        raise AssertionError("given inputs need no trial")

    settled = settle_sizes(lifted, plan, ({"x": np.zeros((4, 5, 3), np.float32)},), never, 0.0)
    assert (settled.sizes, settled.guessed) == ({"n": 4, "x.1": 5}, ())


def test_an_input_without_a_shape_is_drawn() -> None:
    """ONNX Runtime runs such a model; the first layer says how many axes there are."""
    made = model(
        [node("Conv", "x w", "y")], [value("x", None)], [value("y", None)], [weight("w", 4, 3, 1, 1)]
    )
    lifted = lift(load_model(made, why_refused))
    plan = plan_inputs(lifted, declared_ports(lifted), {})
    sizes = next(plan.size_choices())
    assert sizes == {"x.0": 1, "x.1": 3, "x.2": 224, "x.3": 224}
    drawn = plan.draw(np.random.default_rng(0), sizes, "normal")
    assert LoadedModel(made.SerializeToString(), 1).run(drawn)


def test_an_example_of_the_command() -> None:
    assert example({"x.2": 48, "past + 1": 17}) == "--dim x.2=48 --dim 'past + 1=17'"
