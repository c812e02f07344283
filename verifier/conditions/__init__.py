"""Inference of conditions under which refuted equations hold."""
