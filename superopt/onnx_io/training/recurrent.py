"""Recurrent layers (LSTM, GRU, RNN) of a fixed number of time steps as plain nodes, which have gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import onnx
from onnx import helper

from superopt.errors import InvalidModelError
from superopt.ir.types import TensorType, ValueType
from superopt.onnx_io.node_building import NodeBuilder, node_label
from superopt.onnx_io.protos import STANDARD_DOMAINS, attributes_of, dtype_of

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
"""The activations of one direction where the node gives none."""

_PLAIN = frozenset(("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"))
"""Activations that are operators without attributes."""

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_REFUSED = ("clip", "input_forget", "layout", "activation_alpha", "activation_beta")
_LENGTHS, _HIDDEN, _CELL, _PEEPHOLES = 4, 5, 6, 7
_MOST_STEPS = 1024


def is_recurrent(node: onnx.NodeProto) -> bool:
    """Whether the node is a recurrent layer of the standard domain."""
    return node.op_type in _GATES and node.domain in STANDARD_DOMAINS


@dataclass(frozen=True, slots=True)
class _State:
    """The state after a time step, None where it is zero; ``cell`` is that of an LSTM."""

    hidden: str | None
    cell: str | None = None


@dataclass(frozen=True, slots=True)
class _Weights:
    """The tensors of one direction: the ``input`` projected by W at all time steps [steps, batch, gates x
    hidden], with its bias; R transposed, and its bias [gates x hidden], None without one."""

    projected: str
    recurrent: str
    bias: str | None


_Cell: TypeAlias = Callable[[_Weights, Sequence[str], str, _State], _State]
"""Writes one time step: the weights, the activations, the projected input and the state before; the state
after."""


class RecurrentWriter:
    """Writes recurrent layers, time step by time step, into ``builder``. ``types`` are those of the graph's
    tensors."""

    def __init__(self, builder: NodeBuilder, types: Mapping[str, ValueType]) -> None:
        self._builder = builder
        self._types = types

    def why_not(self, node: onnx.NodeProto) -> str:
        """Why the node cannot be written; empty if it can."""
        given = attributes_of(node)
        refused = [name for name in _REFUSED if given.get(name)]
        if "hidden_size" not in given:
            return "expected the attribute hidden_size"
        if refused:
            return f"expected it without {', '.join(refused)}"
        others = set(self._activations(node, given)) - _PLAIN
        if others:
            return f"expected activations among {', '.join(sorted(_PLAIN))}, got {', '.join(sorted(others))}"
        if _operand(node, _PEEPHOLES):
            return "expected it without peepholes"
        type_ = self._types.get(node.input[0])
        steps = type_.shape[0] if isinstance(type_, TensorType) and type_.rank else None
        if not isinstance(steps, int):
            return (
                f"expected a fixed number of time steps, got {steps or 'an unknown one'}; give it by --freeze"
            )
        is_possible = 1 <= steps <= _MOST_STEPS
        return "" if is_possible else f"expected from 1 to {_MOST_STEPS} time steps, got {steps}"

    def write(self, node: onnx.NodeProto) -> None:
        """Writes the outputs that the node has. Raises InvalidModelError where it cannot be written."""
        why = self.why_not(node)
        if why:
            raise InvalidModelError(f"{node_label(node)}: {why}")
        layer = _Layer(self._builder, node, self._types)
        activations = self._activations(node, layer.given)
        reversed_ = _DIRECTIONS[layer.direction]
        each = len(activations) // len(reversed_)
        for place, is_reversed in enumerate(reversed_):
            layer.run(place, is_reversed, activations[place * each : (place + 1) * each])
        layer.finish()

    @staticmethod
    def _activations(node: onnx.NodeProto, given: Mapping[str, object]) -> list[str]:
        named = cast("Sequence[bytes]", given.get("activations", ()))
        names = [name.decode() for name in named]
        return names or list(_ACTIVATIONS[node.op_type]) * len(_DIRECTIONS[_direction(given)])


class _Layer:
    """One node. ``given`` are its attributes; the results of its directions are collected until the end."""

    def __init__(self, builder: NodeBuilder, node: onnx.NodeProto, types: Mapping[str, ValueType]) -> None:
        self._builder, self._node = builder, node
        self.given = attributes_of(node)
        self.direction = _direction(self.given)
        data = types[node.input[0]]
        assert isinstance(data, TensorType), "checked before"
        assert isinstance(data.shape[0], int), "checked before"
        self._steps = data.shape[0]
        self._dtype = dtype_of(data.element)
        self._name = next(name for name in node.output if name)
        self._hidden = int(cast("int", self.given["hidden_size"]))
        self._cuts: dict[tuple[str, int, int, int], list[str]] = {}
        self._lengths = self._float_lengths()
        self._outputs: list[str] = []
        self._ends: list[_State] = []

    def run(self, place: int, is_reversed: bool, activations: Sequence[str]) -> None:  # noqa: FBT001
        """Writes one direction."""
        weights = self._weights(place)
        inputs = self._halved(weights.projected, 0, [1] * self._steps)
        cells: Mapping[str, _Cell] = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}
        cell = cells[self._node.op_type]
        state = _State(self._initial(_HIDDEN, place), self._initial(_CELL, place))
        outputs: dict[int, str] = {}
        for step in reversed(range(self._steps)) if is_reversed else range(self._steps):
            after = cell(weights, activations, self._squeezed(inputs[step]), state)
            assert after.hidden is not None, "a cell gives a state"
            state, outputs[step] = self._within_length(step, state, after)
        self._ends.append(state)
        if self._node.output[0]:
            tops = [self._apply("Unsqueeze", outputs[step], self._axes(0, 1)) for step in sorted(outputs)]
            self._outputs.append(self._joined(tops, 0))

    def finish(self) -> None:
        """Writes the node's outputs from those of its directions."""
        states = [[end.hidden for end in self._ends], [end.cell for end in self._ends]]
        for output, ends in zip(self._node.output[1:], states, strict=False):
            if output:
                found = [self._apply("Unsqueeze", end, self._axes(0)) for end in ends if end is not None]
                self._builder.write("Identity", [self._joined(found, 0)], output)
        if self._node.output[0]:
            self._builder.write("Identity", [self._joined(self._outputs, 1)], self._node.output[0])

    def _lstm(self, weights: _Weights, activations: Sequence[str], x: str, state: _State) -> _State:
        of_gates, of_candidate, of_cell = activations
        gates = self._sum(x, self._recurrence(weights.recurrent, weights.bias, state.hidden))
        rest, candidate = self._parts(gates, 3, 1)
        rest, candidate = self._apply(of_gates, rest), self._apply(of_candidate, candidate)
        enters, rest = self._parts(rest, 1, 2)
        leaves, keeps = self._parts(rest, 1, 1)
        cell = self._apply("Mul", enters, candidate)
        if state.cell is not None:
            cell = self._apply("Add", self._apply("Mul", keeps, state.cell), cell)
        return _State(self._apply("Mul", leaves, self._apply(of_cell, cell)), cell)

    def _gru(self, weights: _Weights, activations: Sequence[str], x: str, state: _State) -> _State:
        of_gates, of_candidate = activations
        gated = self._reset_after if self.given.get("linear_before_reset") else self._reset_before
        update, own = gated(weights, of_gates, x, state.hidden)
        candidate = self._apply(of_candidate, own)
        one = self._builder.constant("recurrent_1", np.array(1, self._dtype))
        new = self._apply("Mul", self._apply("Sub", one, update), candidate)
        if state.hidden is not None:
            new = self._apply("Add", new, self._apply("Mul", update, state.hidden))
        return _State(new)

    def _reset_after(self, weights: _Weights, activation: str, x: str, hidden: str | None) -> tuple[str, str]:
        """The update gate and the operand of the candidate, where the reset gate scales what the state adds
        to it."""
        gates, own = self._parts(x, 2, 1)
        added = self._recurrence(weights.recurrent, weights.bias, hidden)
        terms = (None, None) if added is None else self._parts(added, 2, 1)
        update, reset = self._parts(self._apply(activation, self._sum(gates, terms[0])), 1, 1)
        return update, self._sum(own, None if terms[1] is None else self._apply("Mul", reset, terms[1]))

    def _reset_before(
        self, weights: _Weights, activation: str, x: str, hidden: str | None
    ) -> tuple[str, str]:
        """The same, where the reset gate scales the state."""
        gates, own = self._parts(x, 2, 1)
        of_gates, of_own = self._parts(weights.recurrent, 2, 1)
        biases = (None, None) if weights.bias is None else self._parts(weights.bias, 2, 1)
        gates = self._sum(gates, self._recurrence(of_gates, biases[0], hidden))
        update, reset = self._parts(self._apply(activation, gates), 1, 1)
        kept = None if hidden is None else self._apply("Mul", reset, hidden)
        return update, self._sum(own, self._recurrence(of_own, biases[1], kept))

    def _rnn(self, weights: _Weights, activations: Sequence[str], x: str, state: _State) -> _State:
        added = self._recurrence(weights.recurrent, weights.bias, state.hidden)
        return _State(self._apply(activations[0], self._sum(x, added)))

    def _sum(self, term: str, other: str | None) -> str:
        return term if other is None else self._apply("Add", term, other)

    def _recurrence(self, recurrent: str, bias: str | None, hidden: str | None) -> str | None:
        """What a state adds to the gates, with the bias; None for nothing."""
        if hidden is None:
            return bias
        return self._sum(self._apply("MatMul", hidden, recurrent), bias)

    def _within_length(self, step: int, before: _State, after: _State) -> tuple[_State, str]:
        """The state and the output of a time step: behind the end of a sequence the state stays, and the
        output is 0."""
        assert after.hidden is not None, "a cell gives a state"
        if self._lengths is None:
            return after, after.hidden
        number = self._builder.constant("recurrent_step", np.array(step, np.float32))
        is_within = self._apply("Greater", self._lengths, number)
        zero = self._builder.constant("recurrent_0", np.array(0, self._dtype))

        def chosen(new: str | None, old: str | None) -> str | None:
            return None if new is None else self._apply("Where", is_within, new, old or zero)

        state = _State(chosen(after.hidden, before.hidden), chosen(after.cell, before.cell))
        output = state.hidden if before.hidden is None else chosen(after.hidden, None)
        assert output is not None, "a cell gives a state"
        return state, output

    def _weights(self, place: int) -> _Weights:
        projection, recurrent, bias = (self._of_direction(slot, place) for slot in (1, 2, 3))
        assert projection is not None, "the node has W and R"
        assert recurrent is not None, "the node has W and R"
        projected = self._apply("MatMul", self._node.input[0], self._apply("Transpose", projection))
        of_input, of_state = (None, None) if bias is None else self._halved(bias, 0, [1, 1], self._gates)
        if of_input is not None:
            projected = self._apply("Add", projected, of_input)
        return _Weights(projected, self._apply("Transpose", recurrent), of_state)

    @property
    def _gates(self) -> int:
        """The size of the tensor of all gates."""
        return _GATES[self._node.op_type] * self._hidden

    def _initial(self, slot: int, place: int) -> str | None:
        return self._of_direction(slot, place) if slot == _HIDDEN or self._node.op_type == "LSTM" else None

    def _of_direction(self, slot: int, place: int) -> str | None:
        """The part of an operand, whose first axis are directions, that is for one of them; None without."""
        name = _operand(self._node, slot)
        if not name:
            return None
        count = len(_DIRECTIONS[self.direction])
        return self._squeezed(self._halved(name, 0, [1] * count)[place])

    def _float_lengths(self) -> str | None:
        """The lengths of sequences as numbers [batch, 1]; None where all are whole."""
        name = _operand(self._node, _LENGTHS)
        if not name:
            return None
        cast_ = self._builder.add("Cast", [name], f"{self._name}.lengths", {"to": onnx.TensorProto.FLOAT})
        return self._apply("Unsqueeze", cast_, self._axes(1))

    def _parts(self, name: str, *counts: int) -> list[str]:
        """The parts of a tensor along its last axis, in numbers of gates."""
        return self._halved(name, -1, list(counts), self._hidden)

    def _halved(self, name: str, axis: int, sizes: Sequence[int], unit: int = 1) -> list[str]:
        """The parts of a tensor along an axis, cut in halves again and again: the gradient of each cut joins
        two tensors, which all together are copied a logarithmic number of times."""
        if len(sizes) == 1:
            return [name]
        middle = len(sizes) // 2
        left, right = sizes[:middle], sizes[middle:]
        first, second = self._cut(name, axis, sum(left) * unit, sum(right) * unit)
        return [*self._halved(first, axis, left, unit), *self._halved(second, axis, right, unit)]

    def _cut(self, name: str, axis: int, first: int, second: int) -> list[str]:
        """The two halves of a tensor, which is cut once: weights are asked for at every time step."""
        key = (name, axis, first, second)
        known = self._cuts.get(key)
        if known is None:
            cut = self._builder.constant("recurrent_parts", np.array((first, second), np.int64))
            known = self._cuts[key] = [self._builder.fresh(f"{self._name}.part") for _ in range(2)]
            label = self._builder.fresh(f"{known[0]}:Split")
            self._builder.keep(helper.make_node("Split", [name, cut], known, label, axis=axis))
        return known

    def _joined(self, names: Sequence[str], axis: int) -> str:
        """The tensors joined along an axis, by halves as they are cut."""
        if len(names) == 1:
            return names[0]
        middle = len(names) // 2
        halves = [self._joined(half, axis) for half in (names[:middle], names[middle:])]
        return self._builder.add("Concat", halves, f"{self._name}.joined", {"axis": axis})

    def _squeezed(self, name: str) -> str:
        return self._apply("Squeeze", name, self._axes(0))

    def _axes(self, *axes: int) -> str:
        return self._builder.constant("recurrent_axes", np.array(axes, np.int64))

    def _apply(self, op_type: str, *operands: str) -> str:
        return self._builder.add(op_type, operands, f"{self._name}.{op_type.lower()}")


def _direction(given: Mapping[str, object]) -> str:
    return cast("bytes", given.get("direction", b"forward")).decode()


def _operand(node: onnx.NodeProto, slot: int) -> str:
    return node.input[slot] if slot < len(node.input) else ""


__all__ = ["RecurrentWriter", "is_recurrent"]
