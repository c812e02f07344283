"""Libraries are published by version, jobs keep theirs, and the schema says which older code may use it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the tables, publishes what is verified, and gives jobs a column for their library."""
    versions = op.create_table(
        "library_versions",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("through_proof", sa.BigInteger(), nullable=False),
        sa.Column("rules", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_library_versions")),
        sqlite_autoincrement=True,
    )
    support = op.create_table(
        "schema_support",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("oldest_code", sa.String(length=32), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_schema_support_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema_support")),
    )
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("library_version", sa.BigInteger(), nullable=True))
    connection = op.get_bind()
    connection.execute(sa.insert(support).values(id=1, oldest_code="0002"))
    through = connection.execute(sa.text("SELECT max(id) FROM proofs")).scalar()
    if through is None:
        return
    verified = sa.text("SELECT id FROM rules WHERE status = 'verified' ORDER BY id")
    rules = [str(rule) for rule in connection.execute(verified).scalars()]
    connection.execute(
        sa.insert(versions).values(
            through_proof=through,
            rules=len(rules),
            sha256=hashlib.sha256("\n".join(rules).encode()).hexdigest(),
            note="what was there before libraries had versions",
            published_at=datetime.now(UTC),
        )
    )
