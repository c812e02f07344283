"""Machines that are known by name, as cluster descriptions."""
