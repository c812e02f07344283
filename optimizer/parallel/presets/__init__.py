"""Cluster presets: descriptions of well-known machines, loaded by name."""
