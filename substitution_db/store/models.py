"""The tables as SQLAlchemy models, of only what SQLite and PostgreSQL both have."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator

from superopt.substitution_db.store.records import STORED_STATUSES, JobState, JsonObject, Outcome, RuleStatus

_IDENTITY = BigInteger().with_variant(Integer, "sqlite")


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time: aware and in UTC in Python, ``timestamptz`` on PostgreSQL, UTC text on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To the database; raises ValueError for a time without a zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"expected a time with a zone, got {value}")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """From the database."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


def _one_of(column: str, values: Iterable[RuleStatus] | Iterable[JobState] | Iterable[Outcome]) -> str:
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"


class Base(DeclarativeBase):
    """Names every constraint, so that a migration can find it again."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar = {
        datetime: UtcDateTime(),
        list[str]: JSON(),
        float: Float(53),
    }


class RuleRow(Base):
    """A rule. ``status`` is what its proofs say under the axioms, operators and verifier that they were last
    compared with; one under suspicion (``SuspicionRow``) is none the less suspect. ``generalizations`` are
    more general forms, the most general first, that may hold as well. ``ships`` and ``why`` are what
    selecting made of it, None before.
    """

    __tablename__ = "rules"
    __table_args__ = (
        CheckConstraint(_one_of("status", STORED_STATUSES), name="status"),
        Index(None, "status", "size", "id"),
        Index(None, "size", "id"),
    )

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    equation: Mapped[str] = mapped_column(Text)
    conditions: Mapped[str] = mapped_column(Text)
    size: Mapped[int]
    status: Mapped[str] = mapped_column(String(16))
    generalizations: Mapped[list[str]]
    provenance: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    ships: Mapped[bool | None]
    why: Mapped[str | None] = mapped_column(Text)

    operators: Mapped[list[RuleOperatorRow]] = relationship(
        cascade="all, delete-orphan", lazy="selectin", order_by="RuleOperatorRow.operator"
    )
    proofs: Mapped[list[ProofRow]] = relationship(cascade="all, delete-orphan", order_by="ProofRow.id")
    suspicions: Mapped[list[SuspicionRow]] = relationship(
        cascade="all, delete-orphan", lazy="selectin", order_by="SuspicionRow.id"
    )


class RuleOperatorRow(Base):
    """How often an operator occurs on one side of a rule; what rules are looked up by."""

    __tablename__ = "rule_operators"
    __table_args__ = (
        CheckConstraint("side IN ('source', 'target')", name="side"),
        Index(None, "operator", "rule_id"),
    )

    rule_id: Mapped[str] = mapped_column(ForeignKey("rules.id", ondelete="CASCADE"), primary_key=True)
    side: Mapped[str] = mapped_column(String(6), primary_key=True)
    operator: Mapped[str] = mapped_column(String(64), primary_key=True)
    occurrences: Mapped[int]


class ProofRow(Base):
    """A verdict on a rule, with what it depends on. Rows are only ever added."""

    __tablename__ = "proofs"
    __table_args__ = (
        CheckConstraint(_one_of("verdict", Outcome), name="verdict"),
        Index(None, "rule_id", "id"),
    )

    id: Mapped[int] = mapped_column(_IDENTITY, primary_key=True)
    rule_id: Mapped[str] = mapped_column(ForeignKey("rules.id", ondelete="CASCADE"))
    verdict: Mapped[str] = mapped_column(String(16))
    prover: Mapped[str] = mapped_column(String(64))
    version: Mapped[str] = mapped_column(String(64))
    axioms_used: Mapped[list[str]]
    axioms_hash: Mapped[str] = mapped_column(String(64))
    operators_hash: Mapped[str] = mapped_column(String(64))
    verifier_hash: Mapped[str] = mapped_column(String(64))
    milliseconds: Mapped[float]
    validated_shapes: Mapped[list[str]]
    counterexample: Mapped[str | None] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    grade: Mapped[str | None] = mapped_column(String(16))
    confirmed_by: Mapped[str | None] = mapped_column(String(64))
    certificate: Mapped[JsonObject | None] = mapped_column(JSON(none_as_null=True))
    proved_at: Mapped[datetime]


class SuspicionRow(Base):
    """Evidence against a rule: where it was applied, outputs of a model differed. It stands until it is
    dismissed. ``report`` has what ``replay`` needs of one for the model that differs.
    """

    __tablename__ = "suspicions"
    __table_args__ = (Index(None, "rule_id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(_IDENTITY, primary_key=True)
    rule_id: Mapped[str] = mapped_column(ForeignKey("rules.id", ondelete="CASCADE"))
    found_by: Mapped[str] = mapped_column(String(16))
    model: Mapped[str] = mapped_column(Text)
    sha256: Mapped[str] = mapped_column(String(64))
    seed: Mapped[int] = mapped_column(BigInteger)
    difference: Mapped[str] = mapped_column(Text)
    report: Mapped[JsonObject] = mapped_column(JSON())
    found_at: Mapped[datetime]
    dismissed_at: Mapped[datetime | None]
    dismissed_why: Mapped[str | None] = mapped_column(Text)


class LibraryRow(Base):
    """One row: which shipped library is loaded, and the hashes that the states of rules were compared
    with.
    """

    __tablename__ = "library"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    shipped_sha256: Mapped[str] = mapped_column(String(64))
    axioms_hash: Mapped[str] = mapped_column(String(64))
    operators_hash: Mapped[str] = mapped_column(String(64))
    verifier_hash: Mapped[str] = mapped_column(String(64))


class LibraryVersionRow(Base):
    """A library as published: what the proofs up to ``through_proof`` say. The last row is in force."""

    __tablename__ = "library_versions"
    __table_args__ = ({"sqlite_autoincrement": True},)

    number: Mapped[int] = mapped_column(_IDENTITY, primary_key=True)
    through_proof: Mapped[int] = mapped_column(BigInteger)
    rules: Mapped[int]
    sha256: Mapped[str] = mapped_column(String(64))
    note: Mapped[str] = mapped_column(Text)
    published_at: Mapped[datetime]


class SchemaSupportRow(Base):
    """One row: the oldest revision of the code that may use this database (``store.migrate``)."""

    __tablename__ = "schema_support"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    oldest_code: Mapped[str] = mapped_column(String(32))


class CostRow(Base):
    """A measured cost. The key (found by its hash) says everything that it depends on; device and runtime are
    for selecting rows.
    """

    __tablename__ = "costs"
    __table_args__ = (Index(None, "device", "runtime"),)

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(Text)
    microseconds: Mapped[float]
    device: Mapped[str] = mapped_column(Text)
    runtime: Mapped[str] = mapped_column(Text)
    measured_at: Mapped[datetime]


class JobRow(Base):
    """A job. ``number`` orders jobs, ``id`` is what the outside sees.

    ``heartbeat_at`` tells one sign of life from the next; no clock is compared with it. ``lease_expires_at``
    is for people, and for workers from before that was so. ``result_key`` is the hash of all that the result
    depends on, once there is one.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint(_one_of("state", JobState), name="state"),
        CheckConstraint("(state IN ('running', 'cancelling')) = (lease IS NOT NULL)", name="lease"),
        Index(None, "state", "number"),
        Index(None, "result_key"),
        {"sqlite_autoincrement": True},
    )

    number: Mapped[int] = mapped_column(_IDENTITY, primary_key=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)
    state: Mapped[str] = mapped_column(String(16))
    owner: Mapped[str] = mapped_column(String(12))
    model_name: Mapped[str] = mapped_column(Text)
    options: Mapped[JsonObject] = mapped_column(JSON())
    progress: Mapped[JsonObject] = mapped_column(JSON())
    error: Mapped[JsonObject | None] = mapped_column(JSON(none_as_null=True))
    attempts: Mapped[int]
    max_attempts: Mapped[int]
    lease: Mapped[str | None] = mapped_column(String(32))
    worker: Mapped[str | None] = mapped_column(Text)
    heartbeat_at: Mapped[datetime | None]
    lease_expires_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    library_version: Mapped[int | None] = mapped_column(BigInteger)
    traceparent: Mapped[str | None] = mapped_column(String(64))
    result_key: Mapped[str | None] = mapped_column(String(64))
    reused_from: Mapped[str | None] = mapped_column(String(32))

    files: Mapped[list[JobFileRow]] = relationship(
        cascade="all, delete-orphan", lazy="selectin", order_by="JobFileRow.name"
    )


class JobFileRow(Base):
    """A blob that belongs to a job: what was given (model, data, cluster) or what came out (result,
    report).
    """

    __tablename__ = "job_files"
    __table_args__ = (
        CheckConstraint("role IN ('model', 'data', 'cluster', 'result', 'report')", name="role"),
        Index(None, "sha256"),
    )

    job_number: Mapped[int] = mapped_column(
        _IDENTITY, ForeignKey("jobs.number", ondelete="CASCADE"), primary_key=True
    )
    role: Mapped[str] = mapped_column(String(8), primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64))
    bytes: Mapped[int] = mapped_column(BigInteger)


class JobEventRow(Base):
    """What happened to a job, in order; ids grow over all jobs and are the ids of server-sent events."""

    __tablename__ = "job_events"
    __table_args__ = (
        CheckConstraint("kind IN ('state', 'progress')", name="kind"),
        Index(None, "job_number", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(_IDENTITY, primary_key=True)
    job_number: Mapped[int] = mapped_column(_IDENTITY, ForeignKey("jobs.number", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(16))
    content: Mapped[JsonObject] = mapped_column(JSON())
    created_at: Mapped[datetime]


class WorkerRow(Base):
    """A worker that is there, the job that it has, and what it can optimise for (null: earlier software)."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    job_id: Mapped[str | None] = mapped_column(String(32))
    targets: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))


class JobDurationRow(Base):
    """How many jobs ended in a state after how long (a class of ``activity.DURATION_BOUNDS``), and their
    seconds; also of jobs that are no longer stored.
    """

    __tablename__ = "job_durations"

    state: Mapped[str] = mapped_column(String(16), primary_key=True)
    bucket: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    jobs: Mapped[int] = mapped_column(BigInteger)
    seconds: Mapped[float]


class SubmissionRow(Base):
    """An ``Idempotency-Key`` and the job that it made; without a job, the first request is still under
    way.
    """

    __tablename__ = "submissions"

    owner: Mapped[str] = mapped_column(String(32), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    fingerprint: Mapped[str | None] = mapped_column(String(64))
    job_id: Mapped[str | None] = mapped_column(String(32))
    expires_at: Mapped[datetime]


class ApiKeyRow(Base):
    """An API key; the secret itself is not kept, only its SHA-256 (it has 256 random bits)."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(12), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    sha256: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[str]]
    created_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
