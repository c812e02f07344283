"""Runs migrations by Alembic's own commands, on the ``connection`` in the attributes of the configuration."""

from alembic import context

from superopt.substitution_db.store.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
