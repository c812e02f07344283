"""Rules, proofs, library versions and quarantine."""
