"""Generalisation of equations, and conditions under which they hold."""
