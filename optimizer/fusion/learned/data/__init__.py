"""Estimators that ship: their weights, scaling and errors."""
