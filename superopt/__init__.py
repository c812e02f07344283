"""superopt: a tensor-algebra superoptimizer."""
