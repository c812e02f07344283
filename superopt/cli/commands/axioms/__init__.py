"""Commands superopt axioms."""
