"""Sharded tensors: how operators are divided into tasks, and the operators that change a division."""
