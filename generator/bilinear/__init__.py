"""Discovery of bilinear algorithms: filters and matrix products with fewer multiplications."""

from superopt.generator.bilinear.algorithms import (
    BilinearAlgorithm,
    TransformCost,
    amplification,
    transform_cost,
    worst_amplification,
)
from superopt.generator.bilinear.composition import Part, combined, split_taps, strided, tiled
from superopt.generator.bilinear.filters import FilterAlgorithm, Point, filters
from superopt.generator.bilinear.flips import Found, reduced
from superopt.generator.bilinear.maps import BilinearMap, filter_map, product_map

__all__ = [
    "BilinearAlgorithm",
    "BilinearMap",
    "FilterAlgorithm",
    "Found",
    "Part",
    "Point",
    "TransformCost",
    "amplification",
    "combined",
    "filter_map",
    "filters",
    "product_map",
    "reduced",
    "split_taps",
    "strided",
    "tiled",
    "transform_cost",
    "worst_amplification",
]
