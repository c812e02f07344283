"""Subgraphs of a model: bodies of If, Loop and Scan, branches and functions."""
