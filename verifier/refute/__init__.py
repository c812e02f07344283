"""Refutation by exact evaluation, and validation by symbolic execution."""
