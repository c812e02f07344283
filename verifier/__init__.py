"""From a candidate equation to a verdict: refute by evaluation, prove from axioms, validate symbolically."""
