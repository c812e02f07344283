"""Checks of the axioms themselves: validity, definedness, consistency, redundancy."""
