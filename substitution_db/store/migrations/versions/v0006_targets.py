"""What workers can optimise for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds a column."""
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.add_column(sa.Column("targets", sa.JSON(none_as_null=True), nullable=True))
