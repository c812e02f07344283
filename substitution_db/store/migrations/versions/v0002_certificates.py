"""Proofs keep their certificate, what it is worth and who confirmed it; those recorded before have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns."""
    with op.batch_alter_table("proofs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("grade", sa.String(length=16), nullable=True))
        batch_op.add_column(sa.Column("confirmed_by", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("certificate", sa.JSON(none_as_null=True), nullable=True))
