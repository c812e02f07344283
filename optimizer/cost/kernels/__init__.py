"""Kernels: what is priced, in a form that equal kernels share."""
