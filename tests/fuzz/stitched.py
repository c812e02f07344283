"""Random models as exporters write them: masks, pads, casts, branches, sizes at run time, other domains."""

from __future__ import annotations

import random

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.onnx_io.kit import graph, model, node, tensor, value, weight

WIDTH = 8
"""The last axis of every tensor."""

INT32, INT64, BOOL = TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL
ML, MICROSOFT, LOCAL = "ai.onnx.ml", "com.microsoft", "local"


class Stitcher:
    """Draws a model over sequences [n, t, 8], rows [n, 8], and rows whose number is known at run time only.

    ``is_smooth`` is False once something in it rounds: then a small error may change an output by much.
    """

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._opset = self._dice.choice((13, 15, 17, 18, 20))
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[TensorProto] = []
        self._pools: dict[str, list[str]] = {"sequences": ["x", "z"], "rows": ["r"]}
        self._calls_function = False
        self._may_round = self._dice.random() < 0.4
        self.is_smooth = True

    def model(self, size: int) -> onnx.ModelProto:
        """The model, with an oddity or none; the last tensor of each kind is an output, and one at random."""
        for _ in range(size):
            self._grow()
        kinds = {name: kind for kind, names in self._pools.items() for name in names}
        last = [names[-1] for names in self._pools.values()]
        outputs = [
            self._declared(name, kinds[name]) for name in dict.fromkeys((*last, self._dice.choice([*kinds])))
        ]
        inputs = [value("x", ["n", "t", WIDTH]), value("z", ["n", "t", WIDTH]), value("r", ["n", WIDTH])]
        domains = {ML: 3, MICROSOFT: 1, LOCAL: 1} if self._calls_function else {ML: 3, MICROSOFT: 1}
        made = model(self._nodes, inputs, outputs, self._weights, opset=self._opset, domains=domains)
        if self._calls_function:
            body = [node("Tanh", "a", "t"), node("Mul", "t b", "c")]
            imports = [helper.make_opsetid("", self._opset)]
            made.functions.append(helper.make_function(LOCAL, "Gate", ["a", "b"], ["c"], body, imports))
        self._make_odd(made)
        return made

    @staticmethod
    def _declared(name: str, kind: str) -> onnx.ValueInfoProto:
        sizes = {"sequences": ["n", "t", WIDTH], "rows": ["n", WIDTH]}
        return value(name, sizes.get(kind, [None, WIDTH]))

    def _make_odd(self, made: onnx.ModelProto) -> None:
        inner = [name for names in self._pools.values() for name in names if name.startswith("t")]
        match self._dice.randrange(10):
            case 0:
                made.graph.output[0].type.tensor_type.ClearField("shape")
            case 1:
                made.graph.output[-1].ClearField("type")
            case 2:
                nodes = list(made.graph.node)
                self._dice.shuffle(nodes)
                del made.graph.node[:]
                made.graph.node.extend(nodes)
            case 3:
                made.graph.input.append(value("unused", [3]))
                made.graph.initializer.append(weight("unread", 2))
            case 4:
                for index, n in enumerate(made.graph.node):
                    n.name = f"node/{index}"
            case 5 if inner:
                made.graph.value_info.append(value(self._dice.choice(inner), [None, None, None, None]))
            case 6:
                made.graph.input[0].type.tensor_type.shape.dim[1].ClearField("dim_param")
            case _:
                pass

    def _put(self, op_type: str, inputs: str, **attributes: object) -> str:
        name = f"t{len(self._nodes)}"
        self._nodes.append(node(op_type, inputs, name, **attributes))
        return name

    def _weight(self, *shape: int) -> str:
        stored = weight(f"w{len(self._weights)}", *shape, seed=len(self._weights))
        self._weights.append(stored)
        return stored.name

    def _constant(self, content: object, dtype: type[np.generic] = np.float32) -> str:
        self._weights.append(tensor(f"k{len(self._weights)}", content, dtype))
        return self._weights[-1].name

    def _integers(self, *numbers: int) -> str:
        return self._constant(list(numbers), np.int64)

    def _some(self, kind: str) -> str:
        return self._dice.choice(self._pools[kind][-4:])

    def _grow(self) -> None:
        kind = self._dice.choice((*self._pools, "sequences"))
        a, b = self._some(kind), self._some(kind)
        parts = (self._dense, self._activation, self._sum, self._mask, self._cast, self._branch, self._layout,
                 self._foreign, self._size, self._integer)  # fmt: skip
        made: str | None = None
        if kind == "sequences" and self._dice.random() < 0.35:
            made = self._dice.choice((self._attention, self._convolution, self._pooled, self._scanned))(a)
        if made is None:
            made = self._dice.choice(parts)(a, b)
        self._pools[kind].append(made)

    def _dense(self, a: str, b: str) -> str:
        match self._dice.randrange(4):
            case 0:
                return self._put("MatMul", f"{a} {self._weight(WIDTH, WIDTH)}")
            case 1:
                product = self._put("MatMul", f"{a} {self._weight(WIDTH, WIDTH)}")
                return self._put("Add", f"{product} {self._weight(WIDTH)}")
            case 2:
                joined = self._put("Concat", f"{a} {b}", axis=-1)
                return self._put("MatMul", f"{joined} {self._weight(2 * WIDTH, WIDTH)}")
            case _:
                first, second = f"{self._name()}a", f"{self._name()}b"
                self._nodes.append(node("Split", f"{a} {self._integers(3, 5)}", f"{first} {second}", axis=-1))
                return self._put("Concat", f"{second} {first}", axis=-1)

    def _name(self) -> str:
        return f"p{len(self._nodes)}"

    def _activation(self, a: str, _: str) -> str:
        if self._dice.random() < 0.3:
            mean = self._mean(a)
            centred = self._put("Sub", f"{a} {mean}")
            squared = self._put("Pow", f"{centred} {self._constant(2.0)}")
            variance = self._put("Add", f"{self._mean(squared)} {self._constant(1e-3)}")
            scaled = self._put("Div", f"{centred} {self._put('Sqrt', variance)}")
            return self._put(
                "Add", f"{self._put('Mul', f'{scaled} {self._weight(WIDTH)}')} {self._weight(WIDTH)}"
            )
        simple = (
            "Relu",
            "Sigmoid",
            "Tanh",
            "Identity",
            "Neg",
            "Elu",
            "Softsign",
            "Erf",
            "Softmax",
            "Dropout",
        )
        return self._put(self._dice.choice(simple), a)

    def _mean(self, a: str) -> str:
        if self._opset >= 18:
            return self._put("ReduceMean", f"{a} {self._integers(-1)}")
        return self._put("ReduceMean", a, axes=[-1])

    def _sum(self, a: str, b: str) -> str:
        op_type = self._dice.choice(("Add", "Sub", "Mul"))
        if self._dice.random() < 0.5:
            return self._put(op_type, f"{a} {b}")
        shape = self._dice.choice(((WIDTH,), (1, WIDTH), (1,), ()))
        operands = [a, self._weight(*shape)]
        self._dice.shuffle(operands)
        return self._put(op_type, " ".join(operands))

    def _mask(self, a: str, b: str) -> str:
        """Where, or a large negative number, as a comparison with random numbers says."""
        above = self._put("Greater", f"{a} {self._weight(WIDTH)}")
        if self._dice.random() < 0.5:
            return self._put("Where", f"{above} {a} {self._dice.choice((b, self._weight(1)))}")
        kept = self._put("Sub", f"{self._constant(1.0)} {self._put('Cast', above, to=TensorProto.FLOAT)}")
        return self._put("Add", f"{a} {self._put('Mul', f'{kept} {self._constant(-4.0)}')}")

    def _cast(self, a: str, _: str) -> str:
        match self._dice.randrange(4) if self._may_round else 0:
            case 0:
                return self._put("Cast", self._put("Cast", a, to=TensorProto.DOUBLE), to=TensorProto.FLOAT)
            case 1:
                self.is_smooth = False
                return self._put("Cast", self._put("Cast", a, to=INT32), to=TensorProto.FLOAT)
            case 2:
                self.is_smooth = False
                scale = f"{self._constant(0.05)} {self._constant(3, np.int8)}"
                return self._put("DequantizeLinear", f"{self._put('QuantizeLinear', f'{a} {scale}')} {scale}")
            case _:
                self.is_smooth = False
                quantised, scale, zero = (f"{self._name()}{letter}" for letter in "qsz")
                self._nodes.append(node("DynamicQuantizeLinear", a, f"{quantised} {scale} {zero}"))
                matrix = self._constant(np.arange(WIDTH * WIDTH).reshape(WIDTH, WIDTH), np.uint8)
                product = self._put("MatMulInteger", f"{quantised} {matrix} {zero}")
                number = self._put("Cast", product, to=TensorProto.FLOAT)
                factor = self._put("Mul", f"{scale} {self._constant(0.01)}")
                return self._put("Mul", f"{number} {factor}")

    def _branch(self, a: str, b: str) -> str:
        """A branch or loop that captures tensors; the condition is calculated in half of the cases."""
        name = self._name()
        condition = self._constant(self._dice.randrange(2), np.bool_)
        if self._dice.random() < 0.5:
            whole = self._put("ReduceMax", a, keepdims=0)
            condition = self._put("Less", f"{self._constant(-1e9)} {whole}")
        if self._dice.random() < 0.6:
            then = graph([node("Tanh", a, f"{name}t")], [], [value(f"{name}t", None)])
            other = graph([node("Add", f"{a} {b}", f"{name}e")], [], [value(f"{name}e", None)])
            return self._put("If", condition, then_branch=then, else_branch=other)
        body = graph(
            [node("Identity", f"{name}go", f"{name}on"), node("Add", f"{name}s {b}", f"{name}n")],
            [value(f"{name}i", [], INT64), value(f"{name}go", [], BOOL), value(f"{name}s", None)],
            [value(f"{name}on", [], BOOL), value(f"{name}n", None)],
        )
        return self._put("Loop", f"{self._constant(2, np.int64)} - {a}", body=body)

    def _layout(self, a: str, b: str) -> str:
        match self._dice.randrange(4):
            case 0:
                padded = self._put("Pad", f"{a} {self._margins(a)}")
                return self._put(
                    "Slice", f"{padded} {self._integers(2)} {self._integers(2 + WIDTH)} {self._integers(-1)}"
                )
            case 1:
                longer = self._put("Unsqueeze", f"{a} {self._integers(0)}")
                return self._put("Squeeze", f"{self._put('Relu', longer)} {self._integers(0)}")
            case 2:
                self._nodes.append(node("SequenceConstruct", f"{a} {b}", self._name() + "q"))
                sequence = self._nodes[-1].output[0]
                return self._put("SequenceAt", f"{sequence} {self._constant(1, np.int64)}")
            case _:
                return self._put("Expand", f"{self._weight(1, WIDTH)} {self._put('Shape', a)}")

    def _margins(self, a: str) -> str:
        """Two columns before and one behind, for a rank that is told at run time."""
        rank = self._put("Shape", self._put("Shape", a))
        before = self._put("Sub", f"{rank} {self._integers(1)}")
        zeros = self._put("ConstantOfShape", before, value=tensor("", [0], np.int64))
        return self._put("Concat", f"{zeros} {self._integers(2)} {zeros} {self._integers(1)}", axis=0)

    def _foreign(self, a: str, b: str) -> str:
        match self._dice.randrange(4):
            case 0:
                return self._put("FastGelu", a, domain=MICROSOFT)
            case 1:
                return self._put("BiasGelu", f"{a} {self._weight(WIDTH)}", domain=MICROSOFT)
            case 2:
                return self._put("Scaler", a, domain=ML, offset=[0.5], scale=[2.0])
            case _:
                self._calls_function = True
                return self._put("Gate", f"{a} {b}", domain=LOCAL)

    def _size(self, a: str, _: str) -> str:
        """Rows that a mask selects, in a kind of their own; and what they come from."""
        rows = self._put("Reshape", f"{a} {self._integers(-1, WIDTH)}")
        totals = self._put("ReduceSum", f"{rows} {self._integers(-1)}", keepdims=0)
        selected = self._put("Greater", f"{totals} {self._constant(-1e9)}")
        self._pools[f"selected{len(self._pools)}"] = [self._put("Compress", f"{rows} {selected}", axis=0)]
        return self._put("Relu", a)

    def _integer(self, a: str, _: str) -> str:
        """Looks up rows of a table by the place of the largest number, or sums up."""
        if not self._may_round or self._dice.random() < 0.4:
            return self._put("CumSum", f"{a} {self._constant(-1, np.int64)}")
        self.is_smooth = False
        largest = self._put("ArgMax", a, axis=-1, keepdims=0)
        found = self._put("Gather", f"{self._weight(WIDTH, WIDTH)} {largest}")
        return self._put("Add", f"{a} {found}")

    def _attention(self, a: str) -> str:
        shape = self._put("Shape", a)
        batch, length = (
            self._put("Slice", f"{shape} {self._integers(i)} {self._integers(i + 1)}") for i in (0, 1)
        )
        heads = self._put("Concat", f"{batch} {length} {self._integers(2, WIDTH // 2)}", axis=0)
        turned: list[str] = []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            product = self._put("MatMul", f"{a} {self._weight(WIDTH, WIDTH)}")
            turned.append(self._put("Transpose", self._put("Reshape", f"{product} {heads}"), perm=perm))
        scores = self._put("Div", f"{self._put('MatMul', f'{turned[0]} {turned[1]}')} {self._constant(2.0)}")
        context = self._put("MatMul", f"{self._put('Softmax', scores)} {turned[2]}")
        back = self._put("Transpose", context, perm=[0, 2, 1, 3])
        return self._put("Reshape", f"{back} {shape}")

    def _convolution(self, a: str) -> str:
        turned = self._put("Transpose", a, perm=[0, 2, 1])
        groups = self._dice.choice((1, 2, WIDTH))
        kernel = self._weight(WIDTH, WIDTH // groups, 3)
        made = self._put("Conv", f"{turned} {kernel} {self._weight(WIDTH)}", pads=[1, 1], group=groups)
        return self._put("Transpose", self._put("Relu", made), perm=[0, 2, 1])

    def _pooled(self, a: str) -> str:
        """The mean over the sequence joins the rows, and a row is added to every place of the sequence."""
        if self._opset >= 18:
            mean = self._put("ReduceMean", f"{a} {self._integers(1)}", keepdims=0)
        else:
            mean = self._put("ReduceMean", a, axes=[1], keepdims=0)
        self._pools["rows"].append(mean)
        row = self._put("Unsqueeze", f"{self._some('rows')} {self._integers(1)}")
        return self._put("Add", f"{a} {row}")

    def _scanned(self, a: str) -> str:
        """A mask of the places before each place, from their number at run time."""
        length = self._put("Gather", f"{self._put('Shape', a)} {self._constant(1, np.int64)}")
        zero, one = self._constant(0, np.int64), self._constant(1, np.int64)
        places = self._put("Range", f"{zero} {length} {one}")
        later = self._put(
            "Greater", f"{self._put('Unsqueeze', f'{places} {self._integers(-1)}')} {self._integers(0)}"
        )
        kept = self._put("Where", f"{later} {self._constant(1.0)} {self._constant(0.5)}")
        return self._put("Mul", f"{a} {kept}")
