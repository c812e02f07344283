"""Equivalence checks and latency comparison of two models, by running both."""

from superopt.optimizer.check.compare import Agreement, compare_outputs
from superopt.optimizer.check.equivalence import Equivalence, Reference, check_equivalence
from superopt.optimizer.check.given import (
    check_dims,
    input_shapes,
    load_inputs,
    names_apart,
    require_archive,
)
from superopt.optimizer.check.inputs import InputPlan, declared_ports, open_names, plan_inputs
from superopt.optimizer.check.interval import Comparison, compared
from superopt.optimizer.check.latency import compare_latency, compare_latency_apart
from superopt.optimizer.check.sampling import Sampling
from superopt.optimizer.check.sizing import Sizing, given_inputs, guess_sizes, settle_sizes

__all__ = [
    "Agreement",
    "Comparison",
    "Equivalence",
    "InputPlan",
    "Reference",
    "Sampling",
    "Sizing",
    "check_dims",
    "check_equivalence",
    "compare_latency",
    "compare_latency_apart",
    "compare_outputs",
    "compared",
    "declared_ports",
    "given_inputs",
    "guess_sizes",
    "input_shapes",
    "load_inputs",
    "names_apart",
    "open_names",
    "plan_inputs",
    "require_archive",
    "settle_sizes",
]
