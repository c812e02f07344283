"""Optimizing models: cheaper equal graphs, found by search under measured costs, and checked."""
