"""Runs migrations on the connection that ``substitution_db.migrate`` hands in, inside its transaction."""

from alembic import context

from superopt.substitution_db.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
