"""Whether two models are equal, and which one is faster, found out by running them."""

from optimizer.check.compare import Agreement, compare_outputs
from optimizer.check.equivalence import Equivalence, Reference, check_equivalence
from optimizer.check.inputs import (
    InputPlan,
    check_dims,
    check_inputs,
    declared_ports,
    load_inputs,
    plan_inputs,
    require_archive,
)
from optimizer.check.interval import Comparison, compared
from optimizer.check.latency import compare_latency, compare_latency_apart
from optimizer.check.sampling import Sampling

__all__ = [
    "Agreement",
    "Comparison",
    "Equivalence",
    "InputPlan",
    "Reference",
    "Sampling",
    "check_dims",
    "check_equivalence",
    "check_inputs",
    "compare_latency",
    "compare_latency_apart",
    "compare_outputs",
    "compared",
    "declared_ports",
    "load_inputs",
    "plan_inputs",
    "require_archive",
]
