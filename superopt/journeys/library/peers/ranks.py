"""Inference of tensor ranks in a peer's rule from its operators and parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from superopt.errors import InvalidEquationError, UnsupportedError
from superopt.journeys.library.peers.reading import AxisOrder, PeerGraphs, PeerOperator, PeerTensor

Place = tuple[str, PeerTensor]
"""A tensor of a side; inputs belong to both sides."""

_IMAGES = ("CONV2D", "POOL2D_MAX", "POOL2D_AVG", "ENLARGE", "CONSTANT_ICONV", "CONSTANT_POOL")
_LIKE_INPUTS = (
    *("RELU", "SIGMOID", "TANH", "DROPOUT", "EW_ADD", "EW_MUL", "CONCAT", "SPLIT", "TRANSPOSE", "SOFTMAX"),
    *("PARTITION", "COMBINE", "REPLICATE", "REDUCE"),
)


class Ranks:
    """The ranks of a rule's tensors. FlexFlow's NUMDIM is ignored, because it counts replica dimensions."""

    def __init__(self, graphs: PeerGraphs, axes: AxisOrder) -> None:
        """Raises InvalidEquationError if a tensor would have two ranks."""
        self._parents: dict[Place, Place] = {}
        self._known: dict[Place, int] = {}
        self._matrices: set[Place] = set()
        self._images: set[Place] = set()
        self._counts_replicas = axes is AxisOrder.INNERMOST_FIRST
        for side, operators in (("source", graphs.source), ("target", graphs.target)):
            for index, operator in enumerate(operators):
                self._add(side, operators, index, operator)
        for source, target in graphs.outputs:
            self._unite(_place("source", source), _place("target", target))

    def of(self, side: str, tensor: PeerTensor) -> int | None:
        """The rank of a tensor; None if unknown."""
        return self._known.get(self._root(_place(side, tensor)))

    def is_image(self, side: str, tensor: PeerTensor) -> bool:
        """Whether an image operator determines the tensor's rank, so that no condition is needed."""
        root = self._root(_place(side, tensor))
        return any(self._root(image) == root for image in self._images)

    def axis(self, side: str, tensor: PeerTensor, axis: int) -> int:
        """An axis of the file as axioms count it: of images and of vectors from the outside, of matrices and
        of all else that the file counts from the inside from there, so that batches may come before.

        Raises InvalidEquationError or UnsupportedError if the tensor is known not to have that axis.
        """
        root = self._root(_place(side, tensor))
        rank = self._known.get(root)
        if self._counts_replicas:
            return _from_inside(axis, rank)
        if rank is None and any(self._root(matrix) == root for matrix in self._matrices):
            rank = 2
        return axis - rank if rank not in (None, 4) else axis

    def _add(self, side: str, operators: Sequence[PeerOperator], index: int, operator: PeerOperator) -> None:
        inputs = [_place(side, tensor) for tensor in operator.inputs]
        outputs = [_place(side, tensor) for tensor in _outputs(operators, index)]
        for place, rank in self._stated(operator, inputs, outputs):
            self._state(place, rank)
        if operator.kind in _LIKE_INPUTS or (operator.kind == "MATMUL" and not self._counts_replicas):
            for place in inputs:
                self._unite(place, outputs[0])
        elif operator.kind in ("LINEAR", "MUL"):
            self._unite(inputs[0], outputs[0])
        for place in outputs[1:]:
            self._unite(outputs[0], place)
        if operator.kind == "MATMUL":
            self._matrices.add(outputs[0])
        elif operator.kind in _IMAGES:
            self._images.update((*inputs, *outputs))

    def _stated(
        self, operator: PeerOperator, inputs: list[Place], outputs: list[Place]
    ) -> Iterator[tuple[Place, int]]:
        match operator.kind:
            case kind if kind in _IMAGES:
                yield from ((place, 4) for place in (*inputs, *outputs))
            case "CONCAT" | "TRANSPOSE" if not self._counts_replicas:
                yield outputs[0], operator.parameters["NUMDIM"]
            case "CONSTANT_IMM":
                yield outputs[0], 2
            case "MUL":
                yield inputs[1], 0
            case "LINEAR":
                yield inputs[1], 2
                yield from ((place, 1) for place in inputs[2:])
            case _:
                return

    def _root(self, place: Place) -> Place:
        while (parent := self._parents.get(place, place)) != place:
            self._parents[place] = self._parents.get(parent, parent)
            place = parent
        return place

    def _state(self, place: Place, rank: int) -> None:
        root = self._root(place)
        known = self._known.setdefault(root, rank)
        if known != rank:
            raise InvalidEquationError(f"one tensor has {known} dimensions and {rank}")

    def _unite(self, a: Place, b: Place) -> None:
        one, other = self._root(a), self._root(b)
        if one == other:
            return
        rank = self._known.pop(other, None)
        self._parents[other] = one
        if rank is not None:
            self._state(one, rank)


def _from_inside(axis: int, rank: int | None) -> int:
    if rank is not None and axis == rank:
        raise UnsupportedError(f"dimension {axis} of a tensor with {rank} is that of its replicas")
    if rank is not None and axis > rank:
        raise InvalidEquationError(f"dimension {axis} is out of range for a tensor with {rank}")
    return rank - 1 - axis if rank in (1, 4) else -1 - axis


def _outputs(operators: Sequence[PeerOperator], index: int) -> Iterator[PeerTensor]:
    count = operators[index].parameters["NUM_OUTPUTS"] if operators[index].kind == "SPLIT" else 1
    return (PeerTensor(index, port) for port in range(count))


def _place(side: str, tensor: PeerTensor) -> Place:
    return (side if tensor.operator >= 0 else "", tensor)
