"""Records of the database as frozen dataclasses, and the states of rules and jobs."""

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
    """The states of a rule; the optimizer gets only VERIFIED ones. SUSPECT: its application changed the
    outputs of a model, regardless of its proofs.
    """

    CANDIDATE = "candidate"
    VERIFIED = "verified"
    REFUTED = "refuted"
    UNPROVED = "unproved"
    STALE = "stale"
    SUSPECT = "suspect"


STORED_STATUSES = tuple(status for status in RuleStatus if status is not RuleStatus.SUSPECT)
"""The states that follow from proofs alone, without evidence against the rule."""


class Outcome(enum.StrEnum):
    """The verdicts of a proof."""

    VERIFIED = "verified"
    REFUTED = "refuted"
    UNPROVED = "unproved"


class JobState(enum.StrEnum):
    """The states of a job; ``failed`` ended with an error, ``crashed`` lost its process in every attempt."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CRASHED = "crashed"

    @property
    def final(self) -> bool:
        """Whether this is a final state."""
        return self in FINAL_STATES


FINAL_STATES = frozenset((JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.CRASHED))


class JobRole(enum.StrEnum):
    """The role of a file in its job."""

    MODEL = "model"
    DATA = "data"
    CLUSTER = "cluster"
    RESULT = "result"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Hashes:
    """Content hashes that a verdict depends on: axioms (those used by a proof, else all), operator semantics
    and verifier.
    """

    axioms: str
    operators: str
    verifier: str


@dataclass(frozen=True, slots=True)
class Proof:
    """A verdict on a rule, with its prover, axioms and hashes.

    ``grade`` is the strength of the proof (``certificates.certificate.Grade``; empty if not recorded).
    ``confirmed_by`` is a second prover, with version, that derives the rule from the same axioms.
    ``certificate`` is a certificate in JSON with the equation that it proves, in its original spelling.
    ``milliseconds`` is the proof time, None if not recorded.
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
    """Evidence against a rule: its application changed the outputs of a model.

    ``found_by`` is the command; ``model`` is the model's name and ``sha256`` its hash; ``seed`` seeds the
    random inputs. ``report`` holds the parts of a report that ``replay`` needs to rebuild the differing
    graph; the rule is its last step.
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
    """A stored rule; operators are listed once per occurrence, sorted. ``proof`` determines its status,
    ``selection`` is the result of ``library select``, None before. A rule with ``evidence`` is suspect.
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
    """Numbers of new and of already known rules among those given, and the ids of the new ones."""

    new: int
    known: int
    ids: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class LibraryVersion:
    """A published library version: the rules verified by proofs up to ``through_proof``.

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
    """A blob of a job: role, name (location, for external data), content hash and size in bytes."""

    role: JobRole
    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Job:
    """A stored job; ``library_version`` is the version it was submitted under, ``reused_from`` the job whose
    result was reused, if any. ``outcome`` is its report in short, None before the end and for older jobs.
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
    outcome: JsonObject | None
    files: tuple[JobFile, ...]

    def file(self, role: JobRole) -> JobFile | None:
        """The first file with that role."""
        return next((file for file in self.files if file.role is role), None)


@dataclass(frozen=True, slots=True)
class KnownResult:
    """The result of an earlier job, as files for a new one, with its outcome."""

    job_id: str
    key: str
    files: tuple[JobFile, ...]
    outcome: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's exclusive right to a running job; expires unless renewed."""

    token: str
    job: Job


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A change of state or a progress report of a job."""

    id: int
    kind: str
    content: JsonObject
    created_at: datetime


class JobsSeen(enum.StrEnum):
    """Whose jobs an API key may see: those of its owner, or those of everybody."""

    OWN = "own"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class JobOwner:
    """Whose jobs: those of an API key, and of all keys with that owner (empty: of no other)."""

    key: str
    owner: str


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key without its secret. Keys with the same ``owner`` see each other's jobs; an empty one is that
    of this key alone. ``last_used_at`` may be some seconds late.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None
    owner: str = ""
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    sees: JobsSeen = JobsSeen.OWN

    @property
    def visible_jobs(self) -> JobOwner | None:
        """Whose jobs it may see; None for everybody's."""
        if self.sees is JobsSeen.ALL or "admin" in self.scopes:
            return None
        return JobOwner(self.id, self.owner)
