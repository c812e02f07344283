"""The format of a plan in JSON: what a report and a plan that is handed in may contain."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from superopt.defects import first_defect
from superopt.errors import InvalidFileError

Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class Parts(_Entry):
    """A node, the degrees by which it is divided, and a device for each part of each copy."""

    node: Natural
    degrees: list[Positive]
    devices: list[Natural]
    copies: Positive = 1

    @model_validator(mode="after")
    def _has_a_device_for_each_part(self) -> Parts:
        tasks = math.prod(self.degrees) * self.copies
        if len(self.devices) != tasks or len(set(self.devices)) != tasks:
            raise ValueError(
                f"expected {tasks} different devices for degrees {self.degrees} and {self.copies} copies, "
                f"got {self.devices}"
            )
        return self


class OperatorEntry(Parts):
    """How an operator is divided."""

    stage: Natural = 0


class FetchEntry(_Entry):
    """A collection of the parts of an input, for its ``readers``."""

    readers: list[Natural]
    after: Natural | None = None
    bundle: Natural | None = None


class ResidenceEntry(Parts):
    """How an input is kept in parts."""

    fetches: list[FetchEntry] = []


class GroupEntry(_Entry):
    """A fusion group."""

    head: Natural
    nodes: list[Natural]
    duplicated: list[Natural] = []


class KernelsEntry(_Entry):
    """Fusion groups, buckets of results that are reduced together, each a node and a port, and the order."""

    groups: list[GroupEntry] = []
    buckets: list[list[Annotated[list[Natural], Field(min_length=2, max_length=2)]]] = []
    order: list[Natural] = []


class PlanDocument(_Entry):
    """The plan."""

    operators: list[OperatorEntry]
    microbatches: Positive = 1
    residence: list[ResidenceEntry] = []
    kernels: KernelsEntry | None = None


def read_document(content: object) -> PlanDocument:
    """The plan in JSON values. Raises InvalidFileError with the place of the first defect, numbered from
    0."""
    try:
        return PlanDocument.model_validate(content)
    except ValidationError as error:
        raise InvalidFileError(f"plan: {first_defect(error)}") from None
