"""The first schema: rules, proofs, costs, jobs, keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes every table."""
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=12), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_table(
        "costs",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("microseconds", sa.Float(precision=53), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("runtime", sa.Text(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_costs")),
    )
    with op.batch_alter_table("costs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_costs_device_runtime"), ["device", "runtime"], unique=False)

    op.create_table(
        "jobs",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.String(length=12), nullable=False),
        sa.Column("model_name", sa.Text(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("error", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("lease", sa.String(length=32), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(state IN ('running', 'cancelling')) = (lease IS NOT NULL)", name=op.f("ck_jobs_lease")
        ),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'cancelling', 'succeeded', 'failed', 'cancelled', 'crashed')",
            name=op.f("ck_jobs_state"),
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_jobs")),
        sa.UniqueConstraint("id", name=op.f("uq_jobs_id")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_jobs_state_number"), ["state", "number"], unique=False)

    op.create_table(
        "library",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("shipped_sha256", sa.String(length=64), nullable=False),
        sa.Column("axioms_hash", sa.String(length=64), nullable=False),
        sa.Column("operators_hash", sa.String(length=64), nullable=False),
        sa.Column("verifier_hash", sa.String(length=64), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_library_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_library")),
    )
    op.create_table(
        "rules",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("equation", sa.Text(), nullable=False),
        sa.Column("conditions", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("generalizations", sa.JSON(), nullable=False),
        sa.Column("provenance", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "status IN ('candidate', 'verified', 'refuted', 'unproved', 'stale')",
            name=op.f("ck_rules_status"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rules")),
    )
    with op.batch_alter_table("rules", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_rules_size_id"), ["size", "id"], unique=False)
        batch_op.create_index(batch_op.f("ix_rules_status_size_id"), ["status", "size", "id"], unique=False)

    op.create_table(
        "submissions",
        sa.Column("owner", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=True),
        sa.Column("job_id", sa.String(length=32), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name=op.f("pk_submissions")),
    )
    op.create_table(
        "job_events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind IN ('state', 'progress')", name=op.f("ck_job_events_kind")),
        sa.ForeignKeyConstraint(
            ["job_number"], ["jobs.number"], name=op.f("fk_job_events_job_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_events")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("job_events", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_job_events_job_number_id"), ["job_number", "id"], unique=False)

    op.create_table(
        "job_files",
        sa.Column("job_number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("role", sa.String(length=8), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "role IN ('model', 'data', 'cluster', 'result', 'report')", name=op.f("ck_job_files_role")
        ),
        sa.ForeignKeyConstraint(
            ["job_number"], ["jobs.number"], name=op.f("fk_job_files_job_number"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_number", "role", "name", name=op.f("pk_job_files")),
    )
    with op.batch_alter_table("job_files", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_job_files_sha256"), ["sha256"], unique=False)

    op.create_table(
        "proofs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("rule_id", sa.String(length=16), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("prover", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("axioms_used", sa.JSON(), nullable=False),
        sa.Column("axioms_hash", sa.String(length=64), nullable=False),
        sa.Column("operators_hash", sa.String(length=64), nullable=False),
        sa.Column("verifier_hash", sa.String(length=64), nullable=False),
        sa.Column("milliseconds", sa.Float(precision=53), nullable=False),
        sa.Column("validated_shapes", sa.JSON(), nullable=False),
        sa.Column("counterexample", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("proved_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("verdict IN ('verified', 'refuted', 'unproved')", name=op.f("ck_proofs_verdict")),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["rules.id"], name=op.f("fk_proofs_rule_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proofs")),
    )
    with op.batch_alter_table("proofs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_proofs_rule_id_id"), ["rule_id", "id"], unique=False)

    op.create_table(
        "rule_operators",
        sa.Column("rule_id", sa.String(length=16), nullable=False),
        sa.Column("side", sa.String(length=6), nullable=False),
        sa.Column("operator", sa.String(length=64), nullable=False),
        sa.Column("occurrences", sa.Integer(), nullable=False),
        sa.CheckConstraint("side IN ('source', 'target')", name=op.f("ck_rule_operators_side")),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["rules.id"], name=op.f("fk_rule_operators_rule_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("rule_id", "side", "operator", name=op.f("pk_rule_operators")),
    )
    with op.batch_alter_table("rule_operators", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_rule_operators_operator_rule_id"), ["operator", "rule_id"], unique=False
        )
