"""Documents of the service as frozen dataclasses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, cast

JsonObject: TypeAlias = Mapping[str, object]

FINAL_STATES = frozenset(("succeeded", "failed", "cancelled", "crashed"))


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem document (RFC 9457); ``type`` is ``/problems/SLUG``."""

    type: str
    title: str
    status: int
    detail: str

    def __str__(self) -> str:
        return f"{self.title}: {self.detail}" if self.detail else self.title

    @staticmethod
    def of(content: JsonObject) -> Problem:
        """Parses JSON; missing members get defaults."""
        status = content.get("status")
        return Problem(
            type=str(content.get("type", "about:blank")),
            title=str(content.get("title", "the service gives no reason")),
            status=status if isinstance(status, int) else 500,
            detail=str(content.get("detail", "")),
        )

    @staticmethod
    def of_response(status: int, body: bytes) -> Problem:
        """Parses the body of a response, which may come from a proxy."""
        try:
            known = _object(json.loads(body))
        except ValueError:
            known = _object(None)
        return Problem.of({"title": f"the status is {status}", **known, "status": status})


@dataclass(frozen=True, slots=True)
class File:
    """A file of an optimization: its role (model, data, cluster, result, report), name, hash and size."""

    role: str
    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The report of an optimization in short: the model ``returned`` (``optimized`` or ``original``), and the
    ``ratio`` of the original's cost to its cost, ``measured`` or else predicted; None where unknown."""

    returned: str | None
    ratio: float | None
    measured: bool

    @staticmethod
    def of(content: JsonObject) -> Outcome:
        """From JSON."""
        returned, ratio = content.get("returned"), content.get("ratio")
        return Outcome(
            None if returned is None else str(returned),
            ratio if isinstance(ratio, float) else None,
            bool(content.get("measured")),
        )


@dataclass(frozen=True, slots=True)
class Optimization:
    """An optimization on the service.

    ``reused_from`` is the optimization whose result was reused; ``problem`` is why it ended without a result;
    ``outcome`` is its report in short, once it has succeeded.
    """

    id: str
    state: str
    name: str
    progress: JsonObject
    options: JsonObject
    files: tuple[File, ...]
    attempts: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    reused_from: str | None
    problem: Problem | None
    outcome: Outcome | None = None

    @property
    def ended(self) -> bool:
        """Whether its state is final."""
        return self.state in FINAL_STATES

    @property
    def succeeded(self) -> bool:
        """Whether it has a result."""
        return self.state == "succeeded"

    def file(self, role: str) -> File | None:
        """The first file with that role."""
        return next((file for file in self.files if file.role == role), None)

    @staticmethod
    def of(content: JsonObject) -> Optimization:
        """From JSON."""
        error = content.get("error")
        files = cast("Sequence[JsonObject]", content["files"])
        reused, outcome = content.get("reused_from"), content.get("outcome")
        return Optimization(
            id=str(content["id"]),
            state=str(content["state"]),
            name=str(content["name"]),
            progress=_object(content["progress"]),
            options=_object(content["options"]),
            files=tuple(
                File(str(f["role"]), str(f["name"]), str(f["sha256"]), cast("int", f["bytes"])) for f in files
            ),
            attempts=cast("int", content["attempts"]),
            created_at=datetime.fromisoformat(str(content["created_at"])),
            started_at=_time(content["started_at"]),
            finished_at=_time(content["finished_at"]),
            reused_from=None if reused is None else str(reused),
            problem=Problem.of(cast("JsonObject", error)) if isinstance(error, dict) else None,
            outcome=Outcome.of(cast("JsonObject", outcome)) if isinstance(outcome, dict) else None,
        )


@dataclass(frozen=True, slots=True)
class Event:
    """An event of an optimization: a ``state`` or ``progress``."""

    id: int
    kind: str
    content: JsonObject

    @property
    def final(self) -> bool:
        """Whether it is the last event."""
        return self.kind == "state" and self.content.get("state") in FINAL_STATES


@dataclass(frozen=True, slots=True)
class Substitution:
    """A rule of the service's library; ``axioms_used`` are those of its proof."""

    id: str
    equation: str
    status: str
    conditions: str
    provenance: str
    axioms_used: tuple[str, ...]

    @staticmethod
    def of(content: JsonObject) -> Substitution:
        """From JSON."""
        proof = _object(content.get("proof") or {})
        return Substitution(
            id=str(content["id"]),
            equation=str(content["equation"]),
            status=str(content["status"]),
            conditions=str(content["conditions"]),
            provenance=str(content["provenance"]),
            axioms_used=_texts(proof.get("axioms_used", ())),
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on an equation: verified, refuted or unproved; ``known`` is its state in the library."""

    equation: str
    verdict: str
    axioms_used: tuple[str, ...]
    counterexample: str | None
    reason: str
    known: str | None

    @staticmethod
    def of(content: JsonObject) -> Judgement:
        """From JSON."""
        counterexample, known = content["counterexample"], content["known"]
        return Judgement(
            equation=str(content["equation"]),
            verdict=str(content["verdict"]),
            axioms_used=_texts(content["axioms_used"]),
            counterexample=None if counterexample is None else str(counterexample),
            reason=str(content["reason"]),
            known=None if known is None else str(known),
        )


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, cast("Sequence[object]", value)))


def _time(value: object) -> datetime | None:
    return None if value is None else datetime.fromisoformat(str(value))
