"""Synchronisation strategies of data-parallel training, variable by variable (AutoDist)."""
