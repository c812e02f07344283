"""Conditions under which a refuted equation holds."""
