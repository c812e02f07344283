"""SQLAlchemy models of the tables, restricted to features of both SQLite and PostgreSQL."""

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
    """A point in time: aware and UTC in Python, ``timestamptz`` on PostgreSQL, UTC text on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Converts to the database's form. Raises ValueError for a naive time."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"expected a time with a time zone, got {value}")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Converts from the database's form."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


def _one_of(column: str, values: Iterable[RuleStatus] | Iterable[JobState] | Iterable[Outcome]) -> str:
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"


class Base(DeclarativeBase):
    """Declarative base; names every constraint, so that migrations can refer to it."""

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
    """A rule. ``status`` is its verdict under the hashes that proofs were last compared with; a rule with
    evidence (``SuspicionRow``) is suspect regardless. ``generalizations`` are more general forms that may
    hold, the most general first. ``ships`` and ``why`` are the result of selection, None before.
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
    """Number of occurrences of an operator on one side of a rule; the index for rule look-up."""

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
    """A verdict on a rule, with the hashes it depends on. Append-only."""

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
    """Evidence against a rule: its application changed the outputs of a model. Valid until dismissed.
    ``report`` holds the parts of a report that ``replay`` needs to rebuild the differing model.
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
    """Single row: the shipped library that is loaded, and the hashes that rule states were last compared
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
    """A library version: the verdicts of proofs up to ``through_proof``. The last row is current."""

    __tablename__ = "library_versions"
    __table_args__ = ({"sqlite_autoincrement": True},)

    number: Mapped[int] = mapped_column(_IDENTITY, primary_key=True)
    through_proof: Mapped[int] = mapped_column(BigInteger)
    rules: Mapped[int]
    sha256: Mapped[str] = mapped_column(String(64))
    note: Mapped[str] = mapped_column(Text)
    published_at: Mapped[datetime]


class SchemaSupportRow(Base):
    """Single row: the oldest code revision that may use this database (``store.migrate``)."""

    __tablename__ = "schema_support"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    oldest_code: Mapped[str] = mapped_column(String(32))


class CostRow(Base):
    """A measured cost. The key (indexed by its hash) covers everything the cost depends on; device and
    runtime serve to select rows.
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
    """A job. ``number`` orders jobs, ``id`` is its public id.

    ``heartbeat_at`` distinguishes heartbeats; it is not compared with clocks. ``lease_expires_at`` is
    informational, and used by older workers. ``result_key`` is the hash of everything the result depends on,
    once there is a result, ``outcome`` what the report says of it in short.
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
    outcome: Mapped[JsonObject | None] = mapped_column(JSON(none_as_null=True))

    files: Mapped[list[JobFileRow]] = relationship(
        cascade="all, delete-orphan", lazy="selectin", order_by="JobFileRow.name"
    )


class JobFileRow(Base):
    """A blob of a job: an input (model, data, cluster) or an output (result, report)."""

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
    """An event of a job; ids increase over all jobs and are the ids of server-sent events."""

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
    """A registered worker, its current job, and the targets it can optimise for (null: older software)."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    job_id: Mapped[str | None] = mapped_column(String(32))
    targets: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))


class JobDurationRow(Base):
    """Number and total seconds of jobs by final state and duration bucket (``activity.DURATION_BOUNDS``),
    including jobs no longer stored.
    """

    __tablename__ = "job_durations"

    state: Mapped[str] = mapped_column(String(16), primary_key=True)
    bucket: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    jobs: Mapped[int] = mapped_column(BigInteger)
    seconds: Mapped[float]


class SubmissionRow(Base):
    """An ``Idempotency-Key`` and its job; without a job, the first request is in progress."""

    __tablename__ = "submissions"

    owner: Mapped[str] = mapped_column(String(32), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    fingerprint: Mapped[str | None] = mapped_column(String(64))
    job_id: Mapped[str | None] = mapped_column(String(32))
    expires_at: Mapped[datetime]


class ApiKeyRow(Base):
    """An API key; only the SHA-256 of its secret (256 random bits) is stored. ``owner`` is null for a key
    that shares its jobs with no other. ``sees`` is whose jobs it sees; null, for keys of older software, is
    all.
    """

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(12), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    sha256: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[str]]
    created_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    owner: Mapped[str | None] = mapped_column(String(255))
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    sees: Mapped[str | None] = mapped_column(String(8))
