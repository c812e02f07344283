"""Operators with windows over the last two axes: convolutions, poolings, upsampling."""
