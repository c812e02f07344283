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
from superopt.generator.bilinear.products import ProductAlgorithm, products
from superopt.generator.bilinear.rules import (
    LARGEST_AMPLIFICATION,
    BilinearRule,
    filter_rules,
    product_rules,
)

__all__ = [
    "LARGEST_AMPLIFICATION",
    "BilinearAlgorithm",
    "BilinearMap",
    "BilinearRule",
    "FilterAlgorithm",
    "Found",
    "Part",
    "Point",
    "ProductAlgorithm",
    "TransformCost",
    "amplification",
    "combined",
    "filter_map",
    "filter_rules",
    "filters",
    "product_map",
    "product_rules",
    "products",
    "reduced",
    "split_taps",
    "strided",
    "tiled",
    "transform_cost",
    "worst_amplification",
]
