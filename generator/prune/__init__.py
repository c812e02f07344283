"""Pruning: drops candidates that follow from other candidates."""
