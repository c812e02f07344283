"""Structural checks of peers' rules: references, parameters, ranks, inputs of the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from superopt.errors import InvalidEquationError
from superopt.journeys.library.peers.reading import PeerGraphs, PeerOperator, PeerTensor
from superopt.traversal import acyclic

MOST_AXES = 16
_PARALLEL = ("PARALLEL_DIM", "PARALLEL_DEGREE")
_WINDOW = ("STRIDE_H", "STRIDE_W", "PAD", "ACTI")
_KERNEL = ("KERNEL_H", "KERNEL_W")


@dataclass(frozen=True, slots=True)
class Signature:
    """The number of inputs and the required parameters of an operator."""

    fewest: int
    most: int
    required: tuple[str, ...] = ()


SIGNATURES: Mapping[str, Signature] = {
    "CONV2D": Signature(2, 2, _WINDOW),
    "LINEAR": Signature(2, 3, ("ACTI",)),
    "POOL2D_MAX": Signature(1, 1, (*_KERNEL, *_WINDOW)),
    "POOL2D_AVG": Signature(1, 1, (*_KERNEL, *_WINDOW)),
    **dict.fromkeys(("RELU", "SIGMOID", "TANH", "DROPOUT"), Signature(1, 1)),
    "CONCAT": Signature(1, 64, ("AXIS", "NUMDIM")),
    "SPLIT": Signature(1, 1, ("NUM_OUTPUTS", "AXIS")),
    "TRANSPOSE": Signature(1, 1, ("NUMDIM", "PERM")),
    "SOFTMAX": Signature(1, 1, ("SOFTMAX_DIM",)),
    **dict.fromkeys(("EW_ADD", "EW_MUL", "MUL"), Signature(2, 2)),
    "MATMUL": Signature(2, 2, ("ACTI",)),
    "ENLARGE": Signature(1, 2, _KERNEL),
    "MERGE_GCONV": Signature(1, 1, ("MERGE_GCONV_COUNT",)),
    **dict.fromkeys(("CONSTANT_IMM", "CONSTANT_ONE"), Signature(0, 0)),
    **dict.fromkeys(("CONSTANT_ICONV", "CONSTANT_POOL"), Signature(0, 0, _KERNEL)),
    **dict.fromkeys(("PARTITION", "COMBINE", "REPLICATE", "REDUCE"), Signature(1, 1, _PARALLEL)),
    **dict.fromkeys(("ANY", "BATCHNORM", "RESHAPE"), Signature(0, 64)),
}
"""The vocabulary of both formats, without ``INPUT`` and ``WEIGHT``."""

RANGES: Mapping[str, tuple[int, int]] = {
    "NUM_INPUTS": (1, 64),
    "NUM_OUTPUTS": (1, 64),
    **dict.fromkeys(("GROUP", "MERGE_GCONV_COUNT", "PARALLEL_DEGREE"), (1, 2**31)),
    **dict.fromkeys(("KERNEL_H", "KERNEL_W", "STRIDE_H", "STRIDE_W"), (1, 2**31)),
    "PAD": (0, 1),
    "ACTI": (0, 3),
    "NUMDIM": (1, MOST_AXES),
    "AXIS": (0, MOST_AXES - 1),
    **dict.fromkeys(("OP_TYPE", "PERM"), (0, 2**31)),
    "OUTSHUFFLE": (0, 1),
    **dict.fromkeys(("PARALLEL_DIM", "SOFTMAX_DIM"), (0, MOST_AXES - 1)),
}


def require_rule(graphs: PeerGraphs) -> None:
    """Raises InvalidEquationError if the graphs are not a structurally valid rule."""
    for side, operators in (("source", graphs.source), ("target", graphs.target)):
        for index, operator in enumerate(operators):
            _require_operator(operator, f"operator {index} of the {side}, {operator.kind}")
        _require_references(operators, side)
    _require_outputs(graphs)
    lacking = sorted(inputs_of(graphs.target) - inputs_of(graphs.source), key=lambda t: (-t.operator, t.port))
    if lacking:
        names = ", ".join(map(str, lacking))
        raise InvalidEquationError(f"the target uses input {names}, which the source lacks")


def inputs_of(operators: Sequence[PeerOperator]) -> frozenset[PeerTensor]:
    """The inputs of the rule that the operators read."""
    return frozenset(tensor for op in operators for tensor in op.inputs if tensor.operator < 0)


def output_count(operator: PeerOperator) -> int:
    """The number of outputs of an operator."""
    return operator.parameters["NUM_OUTPUTS"] if operator.kind == "SPLIT" else 1


def in_order(operators: Sequence[PeerOperator]) -> Iterator[int]:
    """The operators by their place in the list, inputs first; those on a cycle never come."""
    return acyclic({i: [t.operator for t in op.inputs if t.operator >= 0] for i, op in enumerate(operators)})


def permutation(operator: PeerOperator) -> tuple[int, ...]:
    """The permutation encoded in TRANSPOSE's PERM: digits to the base NUMDIM, first axis first."""
    rank, code = operator.parameters["NUMDIM"], operator.parameters["PERM"]
    digits: list[int] = []
    for _ in range(rank):
        code, digit = divmod(code, rank)
        digits.append(digit)
    if code or sorted(digits) != list(range(rank)):
        got = operator.parameters["PERM"]
        raise InvalidEquationError(f"PERM {got} is not a permutation of {rank} axes")
    return tuple(reversed(digits))


def _require_operator(operator: PeerOperator, where: str) -> None:
    signature = SIGNATURES.get(operator.kind)
    if signature is None:
        if operator.kind in ("INPUT", "WEIGHT"):
            raise InvalidEquationError(f"{where}: an input is written as a negative opId, not as an operator")
        raise InvalidEquationError(f"{where}: unknown operator type")
    missing = [name for name in signature.required if name not in operator.parameters]
    if missing:
        raise InvalidEquationError(f"{where}: lacks {', '.join(missing)}")
    for name, value in operator.parameters.items():
        if name not in RANGES:
            raise InvalidEquationError(f"{where}: unknown parameter {name}")
        low, high = RANGES[name]
        if not low <= value <= high:
            bounds = f"at least {low}" if high == 2**31 else f"from {low} to {high}"
            raise InvalidEquationError(f"{where}: expected {name} {bounds}, got {value}")
    count = len(operator.inputs)
    said = operator.parameters.get("NUM_INPUTS", count)
    if not signature.fewest <= count <= signature.most or said != count:
        raise InvalidEquationError(f"{where}: expected {_expected_inputs(operator, signature)}, got {count}")
    axis, rank = operator.parameters.get("AXIS", 0), operator.parameters.get("NUMDIM", MOST_AXES)
    if axis >= rank:
        raise InvalidEquationError(f"{where}: AXIS {axis} is out of range for {rank} dimensions")
    if operator.kind == "TRANSPOSE":
        try:
            permutation(operator)
        except InvalidEquationError as error:
            raise InvalidEquationError(f"{where}: {error}") from None


def _expected_inputs(operator: PeerOperator, signature: Signature) -> str:
    count = operator.parameters.get("NUM_INPUTS")
    if count is None or signature.fewest == signature.most:
        low, high = signature.fewest, signature.most
        return f"{low} inputs" if low == high else f"{low} to {high} inputs"
    return f"NUM_INPUTS {count} inputs"


def _require_references(operators: Sequence[PeerOperator], side: str) -> None:
    for index, operator in enumerate(operators):
        for tensor in operator.inputs:
            _require_output(operators, tensor, side, f"operator {index} of the {side}, {operator.kind}")
    ordered = list(in_order(operators))
    if len(ordered) < len(operators):
        first = min(set(range(len(operators))).difference(ordered))
        raise InvalidEquationError(f"the {side} is cyclic: operator {first} depends on itself")


def _require_output(operators: Sequence[PeerOperator], tensor: PeerTensor, side: str, where: str) -> None:
    if tensor.port < 0:
        raise InvalidEquationError(f"{where}: reads output {tensor.port} of an operator")
    if tensor.operator < 0:
        return
    if tensor.operator >= len(operators):
        raise InvalidEquationError(
            f"{where}: reads operator {tensor.operator}, the {side} has {len(operators)}"
        )
    count = output_count(operators[tensor.operator])
    if tensor.port >= count:
        raise InvalidEquationError(
            f"{where}: reads output {tensor.port} of operator {tensor.operator}, which has {count}"
        )


def _require_outputs(graphs: PeerGraphs) -> None:
    if not graphs.outputs:
        raise InvalidEquationError("no output of the source is mapped to one of the target")
    mapped: dict[PeerTensor, PeerTensor] = {}
    for index, (source, target) in enumerate(graphs.outputs):
        where = f"mapped output {index}"
        if source.operator < 0:
            raise InvalidEquationError(f"{where}: is mapped from input {source}, not from an operator")
        _require_output(graphs.source, source, "source", where)
        _require_output(graphs.target, target, "target", where)
        if mapped.setdefault(source, target) != target:
            raise InvalidEquationError(f"{where}: output {source} of the source is mapped twice")
    given = inputs_of(graphs.source)
    lacking = [t for t in mapped.values() if t.operator < 0 and t not in given]
    if lacking:
        raise InvalidEquationError(f"the target uses input {lacking[0]}, which the source lacks")
