"""Operator roles for other modules: products, steps that a runtime fuses, ways to divide a tensor."""

from __future__ import annotations

import enum


class Product(enum.StrEnum):
    """A sum of products of two operands: of matrices, or of an image and a kernel, in this order."""

    MATRIX = "matrix"
    CONVOLUTION = "convolution"


class FusionRole(enum.StrEnum):
    """What a step is to the products before it, or to the runtime.

    ``TRANSPARENT`` vanishes when a graph is lowered, or costs nothing: the runtime sees through it.
    ``VECTOR`` combines channels with vectors, ``FACTOR`` everything with one number: both can be folded into
    weights.
    """

    TRANSPARENT = "transparent"
    VECTOR = "vector"
    FACTOR = "factor"
    SUM = "sum"
    ACTIVATION = "activation"
    NORMALIZATION = "normalization"


class GateStep(enum.StrEnum):
    """What may stand around the operator that tells what a gate or a normalisation in pieces is."""

    SCALING = "scaling"
    POWER = "power"
    CENTRING = "centring"


class Divided(enum.StrEnum):
    """What a parallel operator changes the number of: places along an axis, turns along one, copies."""

    DEGREE = "degree"
    BATCHES = "batches"
    REPLICAS = "replicas"


__all__ = ["Divided", "FusionRole", "GateStep", "Product"]
