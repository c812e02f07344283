"""Presets: the inputs, constants and operators that discovery enumerates."""
