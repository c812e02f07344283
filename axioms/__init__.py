"""The axioms: equations about operators that people wrote and the verifier validates, one file per family."""

from axioms.loader import AxiomSet, axioms_from_text, load_axioms

__all__ = ["AxiomSet", "axioms_from_text", "load_axioms"]
