"""Exhaustive testing of equations: all well-typed cases up to a bound, by polynomial identity testing."""
