"""What the database gives back: frozen values, without SQLAlchemy, and the states that things go through."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

JsonObject: TypeAlias = Mapping[str, object]
"""A JSON object, as parsed."""

SCARCE = ("cuda",)
"""Targets that not every worker can optimise for."""


class RuleStatus(enum.StrEnum):
    """The states of a rule; only VERIFIED ones leave for the optimizer. SUSPECT: outputs of a model differed
    where it was applied, whatever its proofs say."""

    CANDIDATE = "candidate"
    VERIFIED = "verified"
    REFUTED = "refuted"
    UNPROVED = "unproved"
    STALE = "stale"
    SUSPECT = "suspect"


STORED_STATUSES = tuple(status for status in RuleStatus if status is not RuleStatus.SUSPECT)
"""The states that follow from proofs; evidence against a rule makes it suspect beside them."""


class Outcome(enum.StrEnum):
    """What a proof can end with."""

    VERIFIED = "verified"
    REFUTED = "refuted"
    UNPROVED = "unproved"


class JobState(enum.StrEnum):
    """The states of a job; ``failed`` had an error, ``crashed`` lost its process too often."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CRASHED = "crashed"

    @property
    def final(self) -> bool:
        """Whether a job in this state never changes again."""
        return self in FINAL_STATES


FINAL_STATES = frozenset((JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.CRASHED))


class JobRole(enum.StrEnum):
    """What a file is to its job."""

    MODEL = "model"
    DATA = "data"
    CLUSTER = "cluster"
    RESULT = "result"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Hashes:
    """What a verdict depends on: axioms (of a proof those it used, else all), operator semantics and
    verifier, each by the hash of its content.
    """

    axioms: str
    operators: str
    verifier: str


@dataclass(frozen=True, slots=True)
class Proof:
    """A verdict on a rule and what it rests on.

    ``grade`` says what a proof is worth (``certificates.certificate.Grade``; empty for one recorded without).
    ``confirmed_by`` is another prover, with its version, that derives the rule from the axioms used.
    ``certificate`` is a certificate in JSON with the equation, as it was spelled, that it proves.
    ``milliseconds`` is how long the proof took, None where that was not kept.
    """

    verdict: Outcome
    prover: str
    version: str
    axioms_used: tuple[str, ...]
    hashes: Hashes
    milliseconds: float | None
    validated_shapes: tuple[str, ...]
    counterexample: str | None
    reason: str
    grade: str = ""
    confirmed_by: str = ""
    certificate: JsonObject | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class Selection:
    """Whether a verified rule ships with the library, and why."""

    ships: bool
    why: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What makes a rule suspect: outputs of a model differed where it was applied.

    ``found_by`` is the command; the ``model`` is known by its name and ``sha256``, inputs were random by the
    ``seed``. ``report`` has what ``replay`` needs of one for the graph that differs: the rule is the last
    step.
    """

    found_by: str
    model: str
    sha256: str
    seed: int
    difference: str
    report: JsonObject = field(default_factory=dict[str, object], hash=False)

    def __str__(self) -> str:
        return (
            f"applied by {self.found_by} to {self.model} (sha256 {self.sha256[:16]}), seed {self.seed}: "
            f"{self.difference}"
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as stored; operators are named once per occurrence, sorted. ``proof`` is the one that
    decides, ``selection`` what ``library select`` made of it, None before. ``evidence`` is what makes it
    suspect.
    """

    id: str
    equation: str
    conditions: str
    operators_source: tuple[str, ...]
    operators_target: tuple[str, ...]
    status: RuleStatus
    generalizations: tuple[str, ...]
    provenance: str
    proof: Proof | None
    created_at: datetime
    selection: Selection | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def operators(self) -> frozenset[str]:
        """The operators of both sides."""
        return frozenset((*self.operators_source, *self.operators_target))


@dataclass(frozen=True, slots=True)
class Added:
    """How many of the rules given were new, and how many were known before; the ids of the new ones."""

    new: int
    known: int
    ids: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class LibraryVersion:
    """A published library: the rules that the proofs up to ``through_proof`` verify.

    ``sha256`` is that of their sorted ids, one per line; ``rules`` counts them.
    """

    number: int
    through_proof: int
    rules: int
    sha256: str
    note: str
    published_at: datetime


@dataclass(frozen=True, slots=True)
class JobFile:
    """A blob of a job: its role, name (location, for external data), content hash and size."""

    role: JobRole
    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job as stored; ``library_version`` is that of the library it was accepted with, ``reused_from`` the
    job whose result it was given, if it did not have to compute one.
    """

    number: int
    id: str
    state: JobState
    owner: str
    model_name: str
    options: JsonObject
    progress: JsonObject
    error: JsonObject | None
    attempts: int
    max_attempts: int
    worker: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    library_version: int | None
    traceparent: str | None
    reused_from: str | None
    files: tuple[JobFile, ...]

    def file(self, role: JobRole) -> JobFile | None:
        """The first file with that role."""
        return next((file for file in self.files if file.role is role), None)


@dataclass(frozen=True, slots=True)
class KnownResult:
    """A result that an earlier job computed, as files for another one."""

    job_id: str
    key: str
    files: tuple[JobFile, ...]


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's right to a running job; it ends when not renewed in time."""

    token: str
    job: Job


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A change of state or a progress report of a job."""

    id: int
    kind: str
    content: JsonObject
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key without its secret."""

    id: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None
