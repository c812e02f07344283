"""Which rules ship, and why; nothing is known of rules from before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns."""
    with op.batch_alter_table("rules", schema=None) as batch_op:
        batch_op.add_column(sa.Column("ships", sa.Boolean(), nullable=True))
        batch_op.add_column(sa.Column("why", sa.Text(), nullable=True))
