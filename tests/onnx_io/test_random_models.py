"""Random models, rewritten at random by true equations and written partly anew, compute what they did."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from superopt.equations import parse_equation
from superopt.ir import Graph, Plan
from superopt.onnx_io import lift, load_model, lower
from superopt.optimizer.canonical import canonicalise
from superopt.rewriting import Substitution, apply_match, find_matches, substitutions_of
from tests.onnx_io.forcing import touched
from tests.onnx_io.kit import assert_same_results, graph, model, node, tensor, value, weight

RULES = """
add(x, y) => add(y, x)
relu(relu(x)) => relu(x)
relu(x) => relu(relu(x))
identity(x) => x
sigmoid(x) => identity(sigmoid(x))
relu(concat[axis=a](x, y)) => concat[axis=a](relu(x), relu(y))
concat[axis=a](relu(x), relu(y)) => relu(concat[axis=a](x, y))
concat[axis=1](x, concat[axis=1](y, z)) => concat[axis=1](concat[axis=1](x, y), z)
concat[axis=1](concat[axis=1](x, y), z) => concat[axis=1](x, concat[axis=1](y, z))
split0[axis=a](concat[axis=a](x, y)) => x
scale(add(x, y), k) => add(scale(x, k), scale(y, k))
scale(scale(x, k), l) => scale(x, scale(k, l))
conv[padding=p](scale(x, k), w) => conv[padding=p](x, scale(w, k))
mul(broadcast[shape=s](x), y) => mul(y, broadcast[shape=s](x))
channel_scale[axis=a](bias_add[axis=a](x, b), s) => bias_add[axis=a](channel_scale[axis=a](x, s), mul(b, s))
bias_add[axis=a](bias_add[axis=a](x, b), c) => bias_add[axis=a](x, add(b, c))
affine[axis=1](conv[padding=p](x, w), a, b) =>
    bias_add[axis=1](conv[padding=p](x, channel_scale[axis=0](w, a)), b)
(conv[padding=p](x, v), conv[padding=p](x, w)) =>
    (split0[axis=1](conv[padding=p](x, concat[axis=0](v, w))),
     split1[axis=1](conv[padding=p](x, concat[axis=0](v, w)))) where groups(x, v) = 1, groups(x, w) = 1
"""


@cache
def substitutions() -> tuple[Substitution, ...]:
    rules = RULES.replace("\n    ", " ").strip().splitlines()
    return tuple(s for rule in rules for s in substitutions_of(parse_equation(rule), rule))


NOT_UNDERSTOOD = {"Clip", "Concat", "Gather", "If", "Pad", "Shape", "Softsign"}
"""Activations without an operator, what calculates sizes, a pad that something else reads, other bounds.

ONNX does not always know the rank of what they give.
"""


class Grower:
    """Draws a model over tensors [n, 4, 5, 5] and [n, 4], with a branch that captures some of them."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._opset = self._dice.choice((9, 11, 13, 17))
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[TensorProto] = []
        self._images = ["x", "z"]

    def _name(self) -> str:
        return f"t{len(self._nodes)}"

    def _weight(self, *shape: int) -> str:
        stored = weight(f"w{len(self._weights)}", *shape, seed=len(self._weights))
        self._weights.append(stored)
        return stored.name

    def _shape(self, *sizes: int) -> str:
        self._weights.append(tensor(f"s{len(self._weights)}", sizes, np.int64))
        return self._weights[-1].name

    def _put(self, op_type: str, inputs: str, **attributes: object) -> str:
        name = self._name()
        self._nodes.append(node(op_type, inputs, name, **attributes))
        return name

    def _by_numbers(self, op_type: str, a: str, numbers: Mapping[str, list[int] | float]) -> str:
        """A node whose numbers are attributes before operator set 11, operands since."""
        if self._opset < 11:
            return self._put(op_type, a, **numbers)
        names: list[str] = []
        for content in numbers.values():
            dtype = np.float32 if isinstance(content, float) else np.int64
            self._weights.append(tensor(f"k{len(self._weights)}", content, dtype))
            names.append(self._weights[-1].name)
        return self._put(op_type, " ".join((a, *names)))

    def _image(self) -> str:
        return self._dice.choice(self._images[-5:])

    def grow(self) -> None:
        """Adds one or two nodes that make another image."""
        dice, a, b = self._dice, self._image(), self._image()
        match dice.randrange(20):
            case 0:
                made = self._put("Conv", f"{a} {self._weight(4, 4, 3, 3)}", pads=[1] * 4)
            case 1:
                made = self._put("Conv", f"{a} {self._weight(4, 2, 1, 1)} {self._weight(4)}", group=2)
            case 2:
                made = self._put(dice.choice(("Relu", "Sigmoid", "Tanh", "Identity")), a)
            case 3:
                made = self._put(dice.choice(("Add", "Mul", "Sub")), f"{a} {b}")
            case 4:
                shape = dice.choice(((4, 1, 1), (1,), (5,), (), (1, 4, 5, 5)))
                operands = [a, self._weight(*shape)]
                dice.shuffle(operands)
                made = self._put(dice.choice(("Add", "Mul", "Sub")), " ".join(operands))
            case 5:
                statistics = " ".join(self._weight(4) for _ in range(3))
                self._weights.append(tensor(f"v{len(self._weights)}", [0.5, 1, 1.5, 2]))
                made = self._put("BatchNormalization", f"{a} {statistics} {self._weights[-1].name}")
            case 6:
                joined = self._put("Concat", f"{a} {b}", axis=1)
                made = self._put("Conv", f"{joined} {self._weight(4, 8, 1, 1)}")
            case 7:
                first = self._put("Concat", f"{a} {b}", axis=1)
                both = self._put("Concat", f"{first} {self._image()}", axis=1)
                made = self._put("Conv", f"{both} {self._weight(4, 12, 1, 1)}")
            case 8:
                self._nodes.append(node("Split", a, f"s{self._name()} {self._name()}", axis=1))
                self._images.append(self._put("Concat", " ".join(self._nodes[-1].output[::-1]), axis=1))
                made = self._images[-1]
            case 9:
                made = self._put("MaxPool", a, kernel_shape=[3, 3], pads=[1] * 4)
            case 10:
                made = self._put("AveragePool", a, kernel_shape=[3, 3], auto_pad="SAME_UPPER")
            case 11:
                pooled = self._put("GlobalAveragePool", a)
                made = self._put("Mul", f"{b} {self._put('Sigmoid', pooled)}")
            case 12:
                made = self._put("Softsign", a)
            case 13:
                rows = self._put("Reshape", f"{a} {self._shape(0, 4, 25)}")
                product = self._put("MatMul", f"{rows} {self._weight(25, 25)}")
                made = self._put("Reshape", f"{product} {self._shape(-1, 4, 5, 5)}")
            case 14:
                turned = self._put("Transpose", a, perm=[0, 1, 3, 2])
                added = self._put("Add", f"{turned} {self._weight(5, 1)}")
                made = self._put("Transpose", added, perm=[0, 1, 3, 2])
            case 15:
                flat = self._put("Flatten", self._put("GlobalAveragePool", a))
                product = self._put("Gemm", f"{flat} {self._weight(4, 4)} {self._weight(4)}", transB=1)
                made = self._put("Add", f"{b} {self._put('Reshape', f'{product} {self._shape(0, 4, 1, 1)}')}")
            case 16:
                sizes = self._put("Shape", a)
                batch = self._put("Gather", f"{sizes} {self._shape(0)}")
                rows = self._put("Concat", f"{batch} {self._shape(4, 25)}", axis=0)
                product = self._put("MatMul", f"{self._put('Reshape', f'{a} {rows}')} {self._weight(25, 25)}")
                made = self._put("Reshape", f"{product} {sizes}")
            case 17:
                margins = [0, 0, 1, 0, 0, 0, dice.randrange(2), 0]
                padded = self._by_numbers("Pad", a, {"pads": margins})
                rows = 3 + margins[6] if dice.randrange(2) else 2 + margins[6]
                pads = [rows - 2 - margins[6], 0, 0, 0]
                made = self._put("Conv", f"{padded} {self._weight(4, 4, rows, 1)}", pads=pads)
            case 18:
                bounds = {"min": dice.choice((0.0, -0.5)), "max": dice.choice((0.5, 6.0))}
                made = self._by_numbers("Clip", a, bounds)
            case _:
                then = graph([node("Tanh", a, f"b{self._name()}")], [], [self._declare(f"b{self._name()}")])
                other = graph(
                    [node("Add", f"{a} {b}", f"c{self._name()}")], [], [self._declare(f"c{self._name()}")]
                )
                self._weights.append(tensor(f"f{len(self._weights)}", dice.randrange(2), np.bool_))
                made = self._put("If", self._weights[-1].name, then_branch=then, else_branch=other)
        self._images.append(made)

    @staticmethod
    def _declare(name: str) -> onnx.ValueInfoProto:
        return value(name, ["n", 4, 5, 5])

    def model(self, size: int) -> onnx.ModelProto:
        """The model; its last tensors and one at random are outputs."""
        for _ in range(size):
            self.grow()
        names = dict.fromkeys((self._images[-1], self._image(), self._dice.choice(self._images)))
        inputs, outputs = ([self._declare(name) for name in some] for some in ("xz", names))
        return model(self._nodes, inputs, outputs, self._weights, opset=self._opset)


def rewritten_at_random(start: Graph, seed: int, steps: int) -> Graph:
    dice = random.Random(seed)
    current = start
    for _ in range(steps):
        for substitution in dice.sample(substitutions(), 6):
            matches = list(find_matches(current, substitution))
            rewrite = apply_match(current, dice.choice(matches)) if matches else None
            if rewrite is not None:
                current = rewrite.graph
                break
    return current


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 14), st.integers(0, 12))
def test_a_rewritten_model_is_valid_and_computes_the_same(seed: int, size: int, steps: int) -> None:
    made = Grower(seed).model(size)
    content = made.SerializeToString()
    lifted = lift(load_model(content))
    untyped = {why for _, op_type, why in lifted.opaque if op_type not in NOT_UNDERSTOOD}
    assert all("unknown rank" in why or "known at run time" in why for why in untyped)
    canonical = canonicalise(lifted).graph
    changed = rewritten_at_random(canonical if seed % 2 else lifted.graph, seed, steps)
    dice = random.Random(seed)
    for result_of in (canonical, changed, touched(changed, lambda _: dice.random() < 0.5)):
        result = lower(lifted, result_of, Plan()).to_bytes()
        onnx.checker.check_model(result, full_check=True)  # pyright: ignore[reportUnknownMemberType]
        assert_same_results(content, result, rtol=2e-3)
        again = lift(load_model(result))
        unchanged = lower(again, touched(again.graph, lambda _: False), Plan()).unchanged
        assert unchanged == (again.source.came_from is None)
