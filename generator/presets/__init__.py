"""Presets: which inputs, constants and operators discovery enumerates."""
