"""Provers: what they are asked, and how their answers become chains of axioms."""
