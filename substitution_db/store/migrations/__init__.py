"""The alembic environment and the migrations."""
