"""Joint fusion of operators and reductions on a divided training step (DisCo, Yi et al. 2022)."""
