"""Presets: the inputs, constants and operators that discovery enumerates, in stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from superopt.errors import InvalidOptionError
from superopt.ir.terms import Application, AttributeTerm
from superopt.ir.types import Division, ElementType, ShardedType, TensorType
from superopt.ops import Operator, operator_from_attributes


@dataclass(frozen=True, slots=True, repr=False)
class InputType:
    """The ``role`` of a tensor (data, kernel, vector, ...) and its shape in the enumeration.

    Roles restrict the enumeration to terms that occur in networks; they are not part of candidates. Of a
    divided tensor ``shape`` is that of its array, replicas first, and ``divisions`` are those of its axes.
    """

    role: str
    shape: tuple[int, ...]
    divisions: tuple[Division, ...] = ()
    replicas: int = 1

    @property
    def tensor(self) -> TensorType:
        """The type without the role."""
        if not self.divisions:
            return TensorType(ElementType.FLOAT, self.shape)
        return ShardedType(ElementType.FLOAT, self.whole_shape, self.divisions, self.replicas)

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor."""
        return self.shape[1:] if self.replicas > 1 else self.shape

    def at(self, shape: tuple[int, ...]) -> InputType:
        """The same at another shape of the whole tensor."""
        return replace(self, shape=(self.replicas, *shape) if self.replicas > 1 else shape)

    def __repr__(self) -> str:
        """Fingerprints depend on it."""
        divided = f", {self.divisions}, {self.replicas}" if self.divisions else ""
        return f"InputType(role={self.role!r}, shape={self.shape!r}{divided})"


def with_role(role: str, type_: TensorType) -> InputType:
    """The type of a result whose sizes are known."""
    shape = tuple(size for size in type_.array_shape if isinstance(size, int))
    if isinstance(type_, ShardedType):
        return InputType(role, shape, type_.divisions, type_.replicas)
    return InputType(role, shape)


@dataclass(frozen=True, slots=True)
class InputTensor:
    """A variable of the terms."""

    name: str
    type: InputType


@dataclass(frozen=True, slots=True)
class ConstantTensor:
    """An operator without inputs, or one applied to the inputs of the stage that ``arguments`` names; like an
    input it does not count as an operator in levels."""

    operator: Operator
    term: Application
    role: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Instance:
    """An operator with its attributes and the roles it takes and gives.

    ``operator`` is None for the halves of a split: where they cut depends on what they are applied to.
    """

    name: str
    attributes: tuple[tuple[str, AttributeTerm], ...]
    signatures: tuple[tuple[tuple[str, ...], str], ...]
    operator: Operator | None

    def cut_at(self, size: int) -> Operator:
        """The half of a split that cuts at ``size``."""
        return operator_from_attributes(self.name, {**dict(self.attributes), "size": size})

    @property
    def axis(self) -> int:
        """The axis of a half of a split."""
        return cast("int", dict(self.attributes)["axis"])


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a preset that is enumerated on its own, up to its own number of operators."""

    max_ops: int
    inputs: tuple[InputTensor, ...]
    constants: tuple[ConstantTensor, ...]
    instances: tuple[Instance, ...]


@dataclass(frozen=True, slots=True)
class Preset:
    """A vocabulary to enumerate, in stages; ``merges``: whether two outputs are looked for."""

    name: str
    description: str
    max_ops: int
    merges: bool
    inputs: tuple[InputTensor, ...]
    constants: tuple[ConstantTensor, ...]
    instances: tuple[Instance, ...]
    stages: tuple[Stage, ...]

    def stages_to(self, max_ops: int) -> tuple[Stage, ...]:
        """The stages with their sizes shifted by the difference of ``max_ops`` and the preset's own."""
        return tuple(
            replace(stage, max_ops=max(1, stage.max_ops + max_ops - self.max_ops)) for stage in self.stages
        )

    def restricted_to(self, operators: Sequence[str]) -> Preset:
        """The preset restricted to the named operators. Raises InvalidOptionError for an unknown one."""
        known = {instance.name for instance in self.instances}
        for name in operators:
            if name not in known:
                raise InvalidOptionError(
                    f"preset {self.name} has no operator {name}; it has: {', '.join(sorted(known))}"
                )
        stages = tuple(
            replace(stage, instances=tuple(i for i in stage.instances if i.name in operators))
            for stage in self.stages
        )
        instances = tuple(i for i in self.instances if i.name in operators)
        return replace(self, instances=instances, stages=tuple(stage for stage in stages if stage.instances))
