"""The JSON documents of the API, as pydantic models (which OpenAPI describes)."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from pydantic import BaseModel, Field

from superopt.substitution_db.rules.families import saved_share
from superopt.substitution_db.store.records import (
    Evidence,
    Job,
    JobRole,
    JobState,
    Outcome,
    Proof,
    Rule,
    RuleStatus,
)


class ProblemDocument(BaseModel):
    """A problem document (RFC 9457); ``type`` is one of those at ``/problems``."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None


class FileDocument(BaseModel):
    """A file of an optimization."""

    role: JobRole
    name: str
    sha256: str
    bytes: int


class Links(BaseModel):
    """URLs of an optimization; ``model`` and ``report`` are set once it has succeeded."""

    self: str
    events: str
    model: str | None
    report: str | None


OPTIMIZATION_EXAMPLE: dict[str, object] = {
    "id": "58bde8e20ad30cd0fb096c4dd16d89d8",
    "state": "succeeded",
    "progress": {"phase": "check", "seconds": 28.7, "candidates": 18073},
    "created_at": "2026-11-21T20:10:13Z",
    "started_at": "2026-11-21T20:10:14Z",
    "finished_at": "2026-11-21T20:10:44Z",
    "attempts": 1,
    "reused_from": None,
    "name": "densenet121.onnx",
    "options": {"budget": 30},
    "outcome": {"returned": "optimized", "ratio": 1.264, "measured": True},
    "files": [
        {
            "role": "model",
            "name": "model.onnx",
            "sha256": "4fb25b33c6f47792f50188faa2852497e19268552cfbbb6b1ef572a5ff62b0ab",
            "bytes": 32700000,
        }
    ],
    "error": None,
    "links": {
        "self": "/v1/optimizations/58bde8e20ad30cd0fb096c4dd16d89d8",
        "events": "/v1/optimizations/58bde8e20ad30cd0fb096c4dd16d89d8/events",
        "model": "/v1/optimizations/58bde8e20ad30cd0fb096c4dd16d89d8/model",
        "report": "/v1/optimizations/58bde8e20ad30cd0fb096c4dd16d89d8/report",
    },
}
"""An ``OptimizationDocument``, for OpenAPI."""


class OutcomeDocument(BaseModel):
    """The report of an optimization in short: which model was returned, and how many times as good it is as
    the original: measured, or else predicted.
    """

    returned: str | None
    ratio: float | None
    measured: bool


class OptimizationDocument(BaseModel):
    """An optimization."""

    id: str
    state: JobState
    progress: dict[str, object]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempts: int
    reused_from: str | None = Field(description="The optimization whose result was reused, if any.")
    name: str
    options: dict[str, object]
    outcome: OutcomeDocument | None = Field(description="Its report in short, once it has succeeded.")
    files: list[FileDocument]
    error: dict[str, object] | None
    links: Links

    @classmethod
    def of(cls, job: Job) -> Self:
        """The document of a job."""
        here = f"/v1/optimizations/{job.id}"
        done = job.state is JobState.SUCCEEDED
        return cls(
            id=job.id,
            state=job.state,
            progress=dict(job.progress),
            created_at=job.created_at,
            started_at=job.started_at,
            finished_at=job.finished_at,
            attempts=job.attempts,
            reused_from=job.reused_from,
            name=job.model_name,
            options=dict(job.options),
            outcome=None if job.outcome is None else OutcomeDocument.model_validate(job.outcome),
            files=[FileDocument(role=f.role, name=f.name, sha256=f.sha256, bytes=f.bytes) for f in job.files],
            error=None if job.error is None else dict(job.error),
            links=Links(
                self=here,
                events=f"{here}/events",
                model=f"{here}/model" if done else None,
                report=f"{here}/report" if done else None,
            ),
        )


class OptimizationPage(BaseModel):
    """Optimizations, newest first; ``next`` is the cursor of the following page."""

    items: list[OptimizationDocument]
    next: str | None


class ProofDocument(BaseModel):
    """A verdict with its prover, axioms and hashes."""

    verdict: Outcome
    prover: str
    version: str
    axioms_used: list[str]
    axioms_hash: str
    operators_hash: str
    verifier_hash: str
    milliseconds: float | None
    validated_shapes: list[str]
    counterexample: str | None
    reason: str
    grade: str = Field(
        description="`replayed` if the certificate was replayed for all sizes; empty without a certificate."
    )
    confirmed_by: str = Field(description="A second prover that derives the rule from the same axioms.")
    certificate: dict[str, object] | None

    @classmethod
    def of(cls, proof: Proof) -> Self:
        """The document of a proof."""
        return cls(
            verdict=proof.verdict,
            prover=proof.prover,
            version=proof.version,
            axioms_used=list(proof.axioms_used),
            axioms_hash=proof.hashes.axioms,
            operators_hash=proof.hashes.operators,
            verifier_hash=proof.hashes.verifier,
            milliseconds=proof.milliseconds,
            validated_shapes=list(proof.validated_shapes),
            counterexample=proof.counterexample,
            reason=proof.reason,
            grade=proof.grade,
            confirmed_by=proof.confirmed_by,
            certificate=None if proof.certificate is None else dict(proof.certificate),
        )


class EvidenceDocument(BaseModel):
    """Evidence against a rule: applying it changed the outputs of a model."""

    found_by: str
    model: str
    sha256: str
    seed: int
    difference: str

    @classmethod
    def of(cls, evidence: Evidence) -> Self:
        """The document of evidence."""
        return cls(
            found_by=evidence.found_by,
            model=evidence.model,
            sha256=evidence.sha256,
            seed=evidence.seed,
            difference=evidence.difference,
        )


class SubstitutionDocument(BaseModel):
    """A rule of the library with its latest proof. Operators are listed once per occurrence; a rule with
    ``evidence`` is suspect.
    """

    id: str
    equation: str
    operators_source: list[str]
    operators_target: list[str]
    conditions: str
    status: RuleStatus
    provenance: str
    saves: float | None = Field(
        description="Share of the cost that it saves at typical sizes, if that is why it ships."
    )
    proof: ProofDocument | None
    evidence: list[EvidenceDocument]

    @classmethod
    def of(cls, rule: Rule) -> Self:
        """The document of a rule."""
        return cls(
            id=rule.id,
            equation=rule.equation,
            operators_source=list(rule.operators_source),
            operators_target=list(rule.operators_target),
            conditions=rule.conditions,
            status=rule.status,
            provenance=rule.provenance,
            saves=None if rule.selection is None else saved_share(rule.selection.why),
            proof=None if rule.proof is None else ProofDocument.of(rule.proof),
            evidence=list(map(EvidenceDocument.of, rule.evidence)),
        )


class SubstitutionPage(BaseModel):
    """Rules, smallest first; ``next`` is the cursor of the following page."""

    items: list[SubstitutionDocument]
    next: str | None


class ProofRequest(BaseModel, extra="forbid"):
    """An equation to prove, in the text syntax."""

    equation: str = Field(
        min_length=1,
        max_length=8000,
        examples=["relu(relu(x)) => relu(x)"],
        json_schema_extra={"format": "equation"},
    )


class FoundCondition(BaseModel):
    """A condition under which a refuted equation holds: the equation with the condition, its verdict, whether
    it fails everywhere else (``exact``), and the number of instances compared.
    """

    equation: str
    verdict: str
    exact: bool
    instances: int


class ProofAnswer(BaseModel):
    """The verdict on an equation; ``known`` is its state in the library, null if the library lacks it."""

    id: str
    equation: str
    verdict: Outcome
    prover: str
    version: str
    axioms_used: list[str]
    milliseconds: float
    validated_shapes: list[str]
    counterexample: str | None
    condition: FoundCondition | None
    reason: str
    grade: str
    confirmed_by: str
    certificate: dict[str, object] | None
    known: RuleStatus | None


class DeviceDocument(BaseModel):
    """A device to optimise for, and the number of costs measured on it."""

    name: str
    cores: int | None
    memory_bytes: int | None
    costs: int
    here: bool


class DevicePage(BaseModel):
    """All devices."""

    items: list[DeviceDocument]


class Check(BaseModel):
    """One readiness check and its result."""

    ok: bool
    detail: str


class Health(BaseModel):
    """The state of the service, with the result of each check."""

    status: str
    checks: dict[str, Check] = {}
