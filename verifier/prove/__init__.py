"""Provers: problem encoding, proof search, and chains of axioms from solver proofs."""
