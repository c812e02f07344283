"""Rules, proofs, library versions, import and export, quarantine."""
