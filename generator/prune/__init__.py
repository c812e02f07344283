"""Candidates that follow from other candidates are dropped."""
