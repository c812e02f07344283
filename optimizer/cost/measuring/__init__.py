"""Kernels run alone: as models of their own, with made-up content, timed as in the middle of a model."""
