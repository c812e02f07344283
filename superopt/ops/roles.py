"""Operator roles for other modules: products, steps that a runtime fuses, ways to divide a tensor."""

from __future__ import annotations

import enum


class Product(enum.StrEnum):
    """A sum of products of two operands, in this order: two matrices, or an image and a kernel."""

    MATRIX = "matrix"
    CONVOLUTION = "convolution"


class FusionRole(enum.StrEnum):
    """Role of an operator in the runtime's fusions. ``TRANSPARENT`` vanishes when a graph is lowered, or
    costs nothing: fusion sees through it. ``VECTOR`` combines channels with vectors, ``FACTOR`` everything
    with one number: both can be folded into weights."""

    TRANSPARENT = "transparent"
    VECTOR = "vector"
    FACTOR = "factor"
    SUM = "sum"
    ACTIVATION = "activation"
    NORMALIZATION = "normalization"


class GateStep(enum.StrEnum):
    """Operators that may surround the characteristic operator of a decomposed gate or normalisation."""

    SCALING = "scaling"
    POWER = "power"
    CENTRING = "centring"


class Divided(enum.StrEnum):
    """What a parallel operator divides: an axis over places, an axis over turns, or replicas."""

    DEGREE = "degree"
    BATCHES = "batches"
    REPLICAS = "replicas"


__all__ = ["Divided", "FusionRole", "GateStep", "Product"]
