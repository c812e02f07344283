"""Results are found again: by the hash of all that they depend on; a job says whose result it was given."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns."""
    with op.batch_alter_table("jobs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("result_key", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("reused_from", sa.String(length=32), nullable=True))
        batch_op.create_index(batch_op.f("ix_jobs_result_key"), ["result_key"], unique=False)
