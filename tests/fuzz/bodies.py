"""Random models of nested If, Loop and Scan nodes, and what comes of them when every body is rewritten."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from superopt.ir import Plan
from superopt.onnx_io import LoweredModel, lift, load_model, lower
from superopt.onnx_io.bodies.functions import with_functions_inlined
from superopt.onnx_io.bodies.rewriting import Body, BodyRewriting
from superopt.onnx_io.bodies.states import with_simple_control_flow
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.cost import GraphCost, Sizes
from superopt.optimizer.search import Backtracking, RuleSet, SearchLimits, Watch
from tests.fuzz.whim import Whim
from tests.onnx_io.kit import Array, run, session

WIDTH = 4
_FLOAT, _BOOL, _INT = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


@dataclass
class BodyGrower:
    """Grows one model. Tensors are matrices [rows, 4]; ``rows`` of a tensor are "n", or unknown where a loop
    adds to them."""

    dice: random.Random
    opset: int
    ir_version: int
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def model(self) -> onnx.ModelProto:
        """A valid model with inputs x, y: [n, 4], two conditions and a number of iterations."""
        rows: list[int | str] = [self.dice.choice(["n", 2]), WIDTH]
        inputs = [
            helper.make_tensor_value_info("x", _FLOAT, rows),
            helper.make_tensor_value_info("y", _FLOAT, rows),
            helper.make_tensor_value_info("c", _BOOL, []),
            helper.make_tensor_value_info("k", _INT, []),
        ]
        held = [
            self._array("w", (WIDTH, WIDTH)),
            self._array("v", (WIDTH, WIDTH)),
            self._array("b", (WIDTH,)),
        ]
        nodes, scope = self._nodes(["x", "y"], depth=3, size=self.dice.randint(2, 6), has_one=True)
        outputs = self.dice.sample(scope[2:], min(2, len(scope) - 2)) if len(scope) > 2 else []
        nodes.append(helper.make_node("Identity", [scope[-1]], ["last"]))
        graph = helper.make_graph(
            nodes,
            "main",
            inputs,
            [helper.make_tensor_value_info(name, _FLOAT, [None, WIDTH]) for name in (*outputs, "last")],
            held,
        )
        if self.ir_version < 4:
            graph.input.extend(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
                for tensor in held
            )
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=self.ir_version)

    def _name(self, kind: str) -> str:
        return f"{kind}{next(self.numbers)}"

    def _array(self, name: str, shape: tuple[int, ...]) -> TensorProto:
        generator = np.random.default_rng(self.dice.randrange(1 << 30))
        return numpy_helper.from_array(generator.normal(size=shape).astype(np.float32) / 2, name)

    def _nodes(
        self, scope: Sequence[str], depth: int, size: int, *, has_one: bool = False
    ) -> tuple[list[onnx.NodeProto], list[str]]:
        """Nodes over matrices with equal rows, and the names in scope after them."""
        names, nodes = list(scope), list[onnx.NodeProto]()
        place = self.dice.randrange(size) if has_one else -1
        for index in range(size):
            is_nested = index == place or (depth > 0 and self.dice.random() < 0.2)
            made = self._nested(names, depth - 1) if is_nested else self._plain(names)
            nodes.extend(made)
            names.extend(name for name in made[-1].output[:1] if name)
        return nodes, names

    def _plain(self, names: Sequence[str]) -> list[onnx.NodeProto]:
        one, two, out = self.dice.choice(names), self.dice.choice(names), self._name("t")
        match self.dice.randrange(9):
            case 0:
                return [helper.make_node(self.dice.choice(["Relu", "Tanh", "Sigmoid", "Neg"]), [one], [out])]
            case 1:
                return [helper.make_node(self.dice.choice(["Add", "Mul", "Sub"]), [one, two], [out])]
            case 2:
                return [helper.make_node("MatMul", [one, self.dice.choice("wv")], [out])]
            case 3:
                turned, back = self._name("t"), self._name("t")
                return [
                    helper.make_node("Transpose", [one], [turned], perm=[1, 0]),
                    helper.make_node("Transpose", [turned], [back], perm=[1, 0]),
                    helper.make_node("Relu", [back], [out]),
                ]
            case 4:
                first, second = self._name("t"), self._name("t")
                return [
                    helper.make_node("MatMul", [one, "w"], [first]),
                    helper.make_node("MatMul", [one, "v"], [second]),
                    helper.make_node("Add", [first, second], [out]),
                ]
            case 5:
                return [helper.make_node("Identity", [one], [out])]
            case 6:
                first = self._name("t")
                return [
                    helper.make_node("Relu", [one], [first]),
                    helper.make_node("Relu", [first], [out]),
                ]
            case 7:
                constant = self._name("t")
                return [
                    helper.make_node("Constant", [], [constant], value=self._array("", (WIDTH,))),
                    helper.make_node("Add", [one, constant], [out]),
                ]
            case _:
                return [helper.make_node("Add", [one, "b"], [out])]

    def _nested(self, names: Sequence[str], depth: int) -> list[onnx.NodeProto]:
        match self.dice.randrange(4):
            case 0 | 1:
                return self._if(names, depth)
            case 2:
                return self._loop(names, depth)
            case _:
                return self._scan(names, depth) if self.opset >= 9 else self._if(names, depth)

    def _body(self, names: Sequence[str], depth: int, own: Sequence[str]) -> tuple[list[onnx.NodeProto], str]:
        """Nodes, and the name of their result, which a node makes."""
        nodes, scope = self._nodes([*names, *own], depth, self.dice.randint(1, 4))
        if self.dice.random() < 0.15:
            out = self._name("t")
            nodes.append(helper.make_node("Identity", [self.dice.choice([*names, *own])], [out]))
            return nodes, out
        return nodes, scope[-1]

    def _held(self, nodes: list[onnx.NodeProto]) -> list[TensorProto]:
        """Initialisers for a body, which one of its nodes reads."""
        if self.ir_version < 4 or self.dice.random() < 0.5:
            return []
        name, matmuls = self._name("h"), [node for node in nodes if node.op_type == "MatMul"]
        if matmuls:
            self.dice.choice(matmuls).input[1] = name
        return [self._array(name, (WIDTH, WIDTH))] if matmuls else []

    def _if(self, names: Sequence[str], depth: int) -> list[onnx.NodeProto]:
        branches: list[onnx.GraphProto] = []
        count = self.dice.randint(1, 2)
        numbers = next(self.numbers)
        for place in range(2):
            if place and self.dice.random() < 0.3:  # the branches may use the same names
                self.numbers = itertools.count(numbers + 1)
            nodes, out = self._body(names, depth, ())
            outputs = [out]
            if count == 2:
                outputs.append(self._name("t"))
                nodes.append(helper.make_node("Identity", [self.dice.choice([out, *names])], outputs[1:]))
            held = self._held(nodes)
            declared = [helper.make_tensor_value_info(name, _FLOAT, None) for name in outputs]
            branches.append(helper.make_graph(nodes, f"branch{place}", [], declared, held))
        self.numbers = itertools.count(next(self.numbers) + 1000)
        condition, before = self._condition()
        results = [self._name("t") for _ in range(count)]
        node = helper.make_node(
            "If", [condition], results, self._name("If_"), then_branch=branches[0], else_branch=branches[1]
        )
        return [*before, node]

    def _condition(self) -> tuple[str, list[onnx.NodeProto]]:
        """A condition: an input, one computed from the input, or one known beforehand."""
        out = self._name("c")
        match self.dice.randrange(3):
            case 0:
                return "c", []
            case _ if self.opset >= 13:
                shape, size, four = self._name("s"), self._name("s"), self._name("s")
                number = numpy_helper.from_array(np.array(self.dice.choice([3, 4])))
                return out, [
                    helper.make_node("Shape", ["w"], [shape]),
                    helper.make_node("ReduceSum", [shape], [size], keepdims=0),
                    helper.make_node("Constant", [], [four], value=number),
                    helper.make_node("Less", [four, size], [out]),
                ]
            case _:
                return out, [helper.make_node("Not", ["c"], [out])]

    def _loop(self, names: Sequence[str], depth: int) -> list[onnx.NodeProto]:
        step, on, still = self._name("i"), self._name("on"), self._name("on")
        state = self._name("t")
        grows = self.dice.random() < 0.25
        nodes, out = self._body(names, depth, () if grows else (state,))
        if grows:
            joined = self._name("g")
            nodes.append(helper.make_node("Concat", [state, out], [joined], axis=0))
            result = joined
        else:
            result = state if self.dice.random() < 0.1 else out
        nodes.append(helper.make_node("Identity", [on], [still]))
        held = self._held(nodes)
        rank = [None, WIDTH] if self.dice.random() < 0.5 else None
        scanned = [] if grows or self.dice.random() < 0.5 else [out]
        graph = helper.make_graph(
            nodes,
            "body",
            [
                helper.make_tensor_value_info(step, _INT, []),
                helper.make_tensor_value_info(on, _BOOL, []),
                helper.make_tensor_value_info(state, _FLOAT, rank),
            ],
            [
                helper.make_tensor_value_info(still, _BOOL, []),
                *(helper.make_tensor_value_info(name, _FLOAT, None) for name in (result, *scanned)),
            ],
            held,
        )
        made = self._name("t")
        more = [self._name("u") for _ in scanned]
        first = self.dice.choice(names)
        loop = helper.make_node("Loop", ["k", self.dice.choice(["", "c"]), first], [made, *more])
        loop.name = self._name("Loop_")
        loop.attribute.append(helper.make_attribute("body", graph))
        if not grows:
            return [loop]
        total, out = self._name("t"), self._name("t")
        return [
            loop,
            self._summed(made, total),
            helper.make_node("Add", [first, total], [out]),
        ]

    def _summed(self, name: str, out: str) -> onnx.NodeProto:
        """The mean over the rows, whose number a loop decides."""
        return helper.make_node("ReduceMean", [name], [out], axes=[0], keepdims=1)

    def _scan(self, names: Sequence[str], depth: int) -> list[onnx.NodeProto]:
        del depth
        state, row, out, result = (self._name("t") for _ in range(4))
        summed = self._name("t")
        nodes = [
            helper.make_node("Relu", [row], [summed]),
            helper.make_node("Relu", [summed], [out]),
            helper.make_node("Add", [state, out], [result]),
        ]
        graph = helper.make_graph(
            nodes,
            "body",
            [helper.make_tensor_value_info(name, _FLOAT, [WIDTH]) for name in (state, row)],
            [helper.make_tensor_value_info(name, _FLOAT, [WIDTH]) for name in (result, out)],
        )
        final, rows = self._name("t"), self._name("t")
        one = self.dice.choice(names)
        scan = helper.make_node("Scan", ["b", one], [final, rows], self._name("Scan_"), num_scan_inputs=1)
        scan.attribute.append(helper.make_attribute("body", graph))
        after = self._name("t")
        return [scan, helper.make_node("Add", [rows, final], [after])]


def random_body_model(seed: int) -> onnx.ModelProto | None:
    """A random model with control flow; None where the checker rejects it, because a name is used twice."""
    dice = random.Random(seed)
    opset = dice.choice((8, 9, 10, 11, 13, 16, 17))
    model = BodyGrower(dice, opset, 3 if opset == 8 and dice.random() < 0.5 else 8).model()
    try:
        onnx.checker.check_model(model)  # pyright: ignore[reportUnknownMemberType]
    except onnx.checker.ValidationError:
        return None
    return model


def feeds_of(model: bytes) -> list[dict[str, Array]]:
    """Inputs at which branches, and numbers of iterations, differ."""
    given = {port.name: port for port in session(model).get_inputs()}
    generator = np.random.default_rng(0)
    found: list[dict[str, Array]] = []
    for condition, count, most in ((True, 2, 2), (False, 3, 2), (True, 0, 2), (False, 1, 5)):
        rows = most if isinstance(given["x"].shape[0], str) else 2
        found.append(
            {
                "x": generator.normal(size=(rows, WIDTH)).astype(np.float32),
                "y": generator.normal(size=(rows, WIDTH)).astype(np.float32),
                "c": np.array(condition),
                "k": np.array(count, np.int64),
            }
        )
    return [{name: array for name, array in feeds.items() if name in given} for feeds in found]


def rewritten_at_whim(model: onnx.ModelProto, rules: RuleSet, seed: int) -> tuple[bytes, int]:
    """The model with every body rewritten under random prices, after functions and known branches are put in
    place; and the number of bodies that changed."""
    changed = 0

    def rewrite(body: Body) -> LoweredModel | None:
        nonlocal changed
        prefix = f"{body.path}/"
        inner = rewriting.enter(with_simple_control_flow(body.source, _loads, prefix=prefix), prefix)
        lifted = lift(inner)
        start = canonicalise(lifted)
        sizes = Sizes(lifted.graph, dict.fromkeys(lifted.symbols, 2))
        limits = SearchLimits(deadline=float("inf"), alpha=1.2, max_candidates=40, seed=seed)
        cost = GraphCost.of(start.graph, Whim(seed), sizes)
        found = Backtracking().run(cost, rules, Watch(limits))
        if not start.steps and not found.trace:
            return None
        changed += 1
        return lower(lifted, found.best.graph, Plan())

    source = with_simple_control_flow(with_functions_inlined(load_model(model)), _loads)
    rewriting = BodyRewriting(source.proto, rewrite)
    rewritten = rewriting.enter(source)
    lifted = lift(rewritten)
    return lower(lifted, canonicalise(lifted).graph, Plan()).to_bytes(), changed


def _loads(model: LoweredModel) -> bool:
    try:
        session(model.to_bytes())
    except Exception:  # noqa: BLE001 - whatever the runtime raises
        return False
    return True


def difference(first: bytes, second: bytes, feeds: Sequence[Mapping[str, Array]]) -> str:
    """The first difference of outputs; empty if there is none."""
    for given in feeds:
        for expected, got in zip(run(first, given), run(second, given), strict=True):
            if expected.shape != got.shape or not np.allclose(
                expected, got, rtol=1e-4, atol=1e-4, equal_nan=True
            ):
                return f"{expected.shape} {got.shape} {given}"
    return ""
