"""Translation of peers' rules to equations, operator by operator of TASO's vocabulary.

Operators have their real semantics, not TASO's arithmetic for testing: average pooling is a mean that counts
padding (Table 2.2 of the dissertation makes it a convolution with ``C_pool``), ``C_pool`` is 1/(kh kw), relu
is max(x, 0). Padding ``same`` is symmetric. An operator with an activation is followed by it. What FlexFlow
divides is divided as ``docs/equations.md`` says: copies have no axis, and a degree of 1 divides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from superopt.equations import canonical
from superopt.errors import IllTypedError, InvalidEquationError, UnsupportedError
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Condition,
    ConditionCall,
    ConditionName,
    Direction,
    Equation,
    Term,
    Variable,
    variables,
)
from superopt.journeys.library.peers.ranks import Ranks
from superopt.journeys.library.peers.reading import (
    AxisOrder,
    Claim,
    Inexpressible,
    Malformed,
    PeerGraphs,
    PeerOperator,
    PeerTensor,
    Reading,
)
from superopt.journeys.library.peers.structure import (
    in_order,
    inputs_of,
    output_count,
    permutation,
    require_rule,
)
from superopt.ops.terms import application
from superopt.rewriting.divisions import DIVIDING

MOST_OPERATORS = 64
LARGEST_TREE = 300
LARGEST_WINDOW = 64
MOST_PARTS = 64
MOST_OUTPUTS = 5

_ACTIVATIONS = ("none", "sigmoid", "relu", "tanh")
_PADDINGS = ("same", "valid")
_UNARY = {"RELU": "relu", "SIGMOID": "sigmoid", "TANH": "tanh", "DROPOUT": "identity"}
_BINARY = {"EW_ADD": "add", "EW_MUL": "mul", "MUL": "scale", "MATMUL": "matmul"}
_ALONG_AN_AXIS = {"PARTITION": "partition", "COMBINE": "combine"}
_IN_COPIES = {"REPLICATE": "replicate", "REDUCE": "reduce"}
_DIVIDING = {**_ALONG_AN_AXIS, **_IN_COPIES}
_WITHOUT_EQUATION = {
    "ANY": "ANY stands for every operator",
    "BATCHNORM": "the format does not say which input of BATCHNORM is what",
    "RESHAPE": "the format does not say to what shape RESHAPE leads",
    "MERGE_GCONV": "no operator here merges the groups of a kernel",
}


def translated(graphs: PeerGraphs, axes: AxisOrder) -> Reading:
    """The rule as an equation, or the reason why it is not one."""
    try:
        require_rule(graphs)
        _require_expressible(graphs)
        return _claim(graphs, axes)
    except (InvalidEquationError, IllTypedError) as error:
        return Malformed(str(error))
    except UnsupportedError as error:
        return Inexpressible(str(error))


def _require_expressible(graphs: PeerGraphs) -> None:
    for side, operators in (("source", graphs.source), ("target", graphs.target)):
        for operator in operators:
            if operator.kind in _WITHOUT_EQUATION:
                raise UnsupportedError(_WITHOUT_EQUATION[operator.kind])
            if operator.kind == "ENLARGE" and len(operator.inputs) == 2:
                raise UnsupportedError("ENLARGE takes its size from a second tensor")
            windows = [operator.parameters.get(f"{n}_{d}", 1) for n in ("KERNEL", "STRIDE") for d in "HW"]
            if max(windows) > LARGEST_WINDOW:
                raise UnsupportedError(
                    f"{operator.kind}: a window of {max(windows)} is not judged, at most {LARGEST_WINDOW}"
                )
        if len(operators) > MOST_OPERATORS:
            raise UnsupportedError(
                f"the {side} has {len(operators)} operators, more than {MOST_OPERATORS} are not judged"
            )
        _require_small_tree(operators, side)
        _require_few_parts(operators, side)
    count = len(set(graphs.outputs))
    if count > MOST_OUTPUTS:
        raise UnsupportedError(f"{count} outputs, more than {MOST_OUTPUTS} are not judged")


def _require_small_tree(operators: Sequence[PeerOperator], side: str) -> None:
    """Terms share equal subterms in memory but not when printed, so the tree size is limited."""
    sizes: dict[int, int] = {}
    for index in in_order(operators):
        operator = operators[index]
        halves = output_count(operator)
        sizes[index] = halves + sum(sizes.get(tensor.operator, 1) for tensor in operator.inputs)
    if max(sizes.values(), default=0) > LARGEST_TREE:
        raise UnsupportedError(f"the {side} written out has more than {LARGEST_TREE} operators")


def _require_few_parts(operators: Sequence[PeerOperator], side: str) -> None:
    """Limits the product of nested degrees, of which sizes are multiples."""
    parts: dict[int, int] = {}
    for index in in_order(operators):
        operator = operators[index]
        before = max((parts.get(tensor.operator, 1) for tensor in operator.inputs), default=1)
        parts[index] = before * (operator.parameters["PARALLEL_DEGREE"] if operator.kind in _DIVIDING else 1)
    most = max(parts.values(), default=1)
    if most > MOST_PARTS:
        raise UnsupportedError(
            f"the {side} multiplies degrees to {most}, more than {MOST_PARTS} are not judged"
        )


def _claim(graphs: PeerGraphs, axes: AxisOrder) -> Claim:
    ranks = Ranks(graphs, axes)
    source = _Side("source", graphs.source, ranks, axes)
    target = _Side("target", graphs.target, ranks, axes)
    outputs = dict.fromkeys(graphs.outputs)
    left = tuple(source.term(tensor) for tensor, _ in outputs)
    right = tuple(target.term(tensor) for _, tensor in outputs)
    if any(isinstance(term, Variable) for term in left):
        raise InvalidEquationError("an output of the source is an input as it is, which matches everything")
    bound = variables(*left)
    unbound = [tensor for tensor in inputs_of(graphs.target) if _input(tensor).name not in bound]
    if unbound:
        names = ", ".join(sorted(map(str, unbound)))
        raise InvalidEquationError(
            f"the target uses input {names}, on which no mapped output of the source depends"
        )
    general = Equation(left, right, Direction.FORWARD)
    names = variables(*left)
    conditions = dict.fromkeys((*_rank_conditions(graphs, ranks, names), *source.conditions()))
    written = replace(general, conditions=tuple(c for c in conditions if _names(c) <= set(names)))
    return Claim(canonical(general), canonical(written))


def _rank_conditions(graphs: PeerGraphs, ranks: Ranks, names: Sequence[str]) -> Iterator[Condition]:
    """Conditions for the known ranks of inputs, unless operators imply them."""
    factors = {operator.inputs[1] for operator in graphs.source if operator.kind == "MUL"}
    inputs = {tensor: None for operator in graphs.source for tensor in operator.inputs if tensor.operator < 0}
    for tensor in inputs:
        rank, name = ranks.of("source", tensor), ConditionName(_input(tensor).name)
        implied = tensor in factors or ranks.is_image("source", tensor)
        if rank is not None and not implied and name.name in names:
            yield Condition(ConditionCall("rank", (name,)), "=", rank)


class _Side:
    """The terms of one side's operators."""

    def __init__(self, name: str, operators: Sequence[PeerOperator], ranks: Ranks, axes: AxisOrder) -> None:
        self._name = name
        self._operators = operators
        self._ranks = ranks
        self._axes = axes
        self._terms: dict[PeerTensor, Term] = {}
        for index in in_order(operators):
            inputs = [self.term(tensor) for tensor in operators[index].inputs]
            for port, term in enumerate(self._outputs(operators[index], inputs)):
                self._terms[PeerTensor(index, port)] = term

    def term(self, tensor: PeerTensor) -> Term:
        """The term for a tensor."""
        return _input(tensor) if tensor.operator < 0 else self._terms[tensor]

    def conditions(self) -> Iterator[Condition]:
        """Conditions on the shapes of variables from CONV2D's parameters."""
        for operator in self._operators:
            if operator.kind != "CONV2D":
                continue
            data, weight = (self.term(tensor) for tensor in operator.inputs)
            kernel = [(axis, operator.parameters.get(f"KERNEL_{d}")) for axis, d in ((2, "H"), (3, "W"))]
            for axis, size in kernel:
                for leaf in _kernels(weight) if size is not None else ():
                    yield Condition(ConditionCall("dim", (ConditionName(leaf), axis)), "=", size)
            groups = operator.parameters.get("GROUP")
            if groups is not None:
                data, weight = _undivided(data), _undivided(weight)
                if not isinstance(data, Variable) or not isinstance(weight, Variable):
                    raise UnsupportedError("GROUP of a convolution of what is no input cannot be written")
                names = ConditionName(data.name), ConditionName(weight.name)
                yield Condition(ConditionCall("groups", names), "=", groups)

    def _outputs(self, operator: PeerOperator, inputs: list[Term]) -> list[Term]:
        said = operator.parameters
        match operator.kind:
            case kind if kind in _UNARY:
                return [application(_UNARY[kind], {}, *inputs)]
            case "EW_ADD" | "EW_MUL" | "MUL" | "MATMUL":
                return [_activated(application(_BINARY[operator.kind], {}, *inputs), said)]
            case "LINEAR":
                product: Term = application("matmul", {}, *inputs[:2])
                for bias in inputs[2:]:
                    product = application("bias_add", {"axis": -1}, product, bias)
                return [_activated(product, said)]
            case kind if kind in _DIVIDING:
                return [self._divided(operator, inputs[0])]
            case "SOFTMAX":
                return [application("softmax", {"axis": self._axis(operator, "SOFTMAX_DIM")}, inputs[0])]
            case "CONCAT":
                axis = self._axis(operator, "AXIS")
                return [reduce(lambda a, b: application("concat", {"axis": axis}, a, b), inputs)]
            case "SPLIT":
                return _pieces(inputs[0], self._axis(operator, "AXIS"), said["NUM_OUTPUTS"])
            case "TRANSPOSE":
                return [self._transpose(permutation(operator), inputs[0])]
            case _:
                return [self._window(operator, inputs)]

    def _window(self, operator: PeerOperator, inputs: list[Term]) -> Term:
        said = operator.parameters
        kernel: dict[str, AttributeTerm] = {"kernel": (said.get("KERNEL_H", 1), said.get("KERNEL_W", 1))}
        match operator.kind:
            case "CONV2D":
                activation: AttributeTerm = _ACTIVATIONS[said["ACTI"]]
                return application("conv", {**_sliding(said), "activation": activation}, *inputs)
            case "POOL2D_MAX":
                return _activated(application("maxpool", {**kernel, **_sliding(said)}, *inputs), said)
            case "POOL2D_AVG":
                attributes = {**kernel, **_sliding(said), "includes_padding": 1}
                return _activated(application("avgpool", attributes, *inputs), said)
            case "ENLARGE":
                return application("enlarge", kernel, *inputs)
            case "CONSTANT_POOL":
                return application("avgpool_kernel", kernel)
            case "CONSTANT_ICONV":
                return application("identity_kernel", kernel)
            case "CONSTANT_IMM":
                return application("identity_matrix", {})
            case _:
                return application("ones", {})

    def _divided(self, operator: PeerOperator, whole: Term) -> Term:
        degree = operator.parameters["PARALLEL_DEGREE"]
        if degree == 1:
            return whole
        if operator.kind in _IN_COPIES:
            return application(_IN_COPIES[operator.kind], {"degree": degree}, whole)
        axis = self._axis(operator, "PARALLEL_DIM")
        return application(_ALONG_AN_AXIS[operator.kind], {"axis": axis, "degree": degree}, whole)

    def _axis(self, operator: PeerOperator, parameter: str) -> int:
        return self._ranks.axis(self._name, operator.inputs[0], operator.parameters[parameter])

    def _transpose(self, perm: tuple[int, ...], whole: Term) -> Term:
        rank = len(perm)
        if self._axes is AxisOrder.INNERMOST_FIRST:
            perm = tuple(rank - 1 - axis for axis in reversed(perm))
        swapped = (*range(rank - 2), rank - 1, rank - 2)
        return application("transpose", {} if rank > 1 and perm == swapped else {"perm": perm}, whole)


def _activated(term: Term, said: Mapping[str, int]) -> Term:
    activation = _ACTIVATIONS[said.get("ACTI", 0)]
    return term if activation == "none" else application(activation, {}, term)


def _sliding(said: Mapping[str, int]) -> dict[str, AttributeTerm]:
    return {"stride": (said["STRIDE_H"], said["STRIDE_W"]), "padding": _PADDINGS[said["PAD"]]}


def _pieces(whole: Term, axis: int, count: int) -> list[Term]:
    """The outputs of a split as halves: each is the first half of the remainder."""
    pieces: list[Term] = []
    for _ in range(count - 1):
        pieces.append(application("split0", {"axis": axis}, whole))
        whole = application("split1", {"axis": axis}, whole)
    return [*pieces, whole]


def _undivided(term: Term) -> Term:
    """The operands of partition, replication and combination in the term."""
    while isinstance(term, Application) and term.operator in DIVIDING:
        (term,) = term.inputs
    return term


def _kernels(weight: Term) -> Iterator[str]:
    """The variables whose kernel size equals that of the weight."""
    match weight:
        case Variable(name):
            yield name
        case Application("add" | "mul", _, inputs):
            for child in inputs:
                yield from _kernels(child)
        case Application("relu" | "sigmoid" | "tanh" | "identity" | "scale", _, inputs):
            yield from _kernels(inputs[0])
        case Application(operator, _, inputs) if operator in DIVIDING:
            yield from _kernels(inputs[0])
        case Application("concat" | "split0" | "split1", _, inputs) if weight.attribute("axis") in (0, 1):
            for child in inputs:
                yield from _kernels(child)
        case _:
            return


def _input(tensor: PeerTensor) -> Variable:
    name = f"x{-tensor.operator}"
    return Variable(name if tensor.port == 0 else f"{name}_{tensor.port}")


def _names(condition: Condition) -> set[str]:
    arguments = condition.left.arguments if isinstance(condition.left, ConditionCall) else ()
    return {argument.name for argument in arguments if isinstance(argument, ConditionName)}
