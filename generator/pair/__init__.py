"""Pairing: equations between terms of equal value."""
