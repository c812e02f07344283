"""Alembic environment and migrations."""
