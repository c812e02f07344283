"""Enumeration of the terms of a preset, level by level, grouped by value."""
