"""Equations between terms of equal value."""
