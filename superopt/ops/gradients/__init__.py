"""Operators that only gradients have: the transposes of linear operators that no other operator expresses."""
