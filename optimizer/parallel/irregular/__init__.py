"""Ranges of vertices for graph networks, by learned costs (Roc, dissertation section 4.4)."""
