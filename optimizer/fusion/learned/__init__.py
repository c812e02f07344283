"""Learned times of kernels: groups of operators are sampled and timed, and a network is fitted to them."""
