"""Commands superopt library."""
