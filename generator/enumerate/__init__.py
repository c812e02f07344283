"""Terms of a preset, level by level, grouped by value."""
