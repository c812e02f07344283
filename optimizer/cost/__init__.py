"""What graphs cost: kernels measured in ONNX Runtime, an analytic price where measuring is impossible."""

from optimizer.cost.graph_cost import GraphCost, PricedGroup
from optimizer.cost.kernel import Kernel
from optimizer.cost.latency import Latency, Recorded
from optimizer.cost.memory import Memory, MemoryLimit
from optimizer.cost.nominal import Nominal
from optimizer.cost.objective import (
    Flops,
    Launches,
    Objective,
    PeakMemory,
    Price,
    Traffic,
)
from optimizer.cost.origin import Origin
from optimizer.cost.profile import CostProfile, profile_of, read_profile
from optimizer.cost.runtime import Provider, device_name, physical_cores, runtime_version
from optimizer.cost.sizes import Sizes
from optimizer.cost.store import CostStore, MemoryCostStore
from optimizer.cost.target import HERE, Target, objective_of

__all__ = [
    "HERE",
    "CostProfile",
    "CostStore",
    "Flops",
    "GraphCost",
    "Kernel",
    "Latency",
    "Launches",
    "Memory",
    "MemoryCostStore",
    "MemoryLimit",
    "Nominal",
    "Objective",
    "Origin",
    "PeakMemory",
    "Price",
    "PricedGroup",
    "Provider",
    "Recorded",
    "Sizes",
    "Target",
    "Traffic",
    "device_name",
    "objective_of",
    "physical_cores",
    "profile_of",
    "read_profile",
    "runtime_version",
]
