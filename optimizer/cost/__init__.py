"""Cost models: kernels measured in ONNX Runtime, and an analytic estimate where measuring is impossible."""

from superopt.optimizer.cost.estimate import estimate
from superopt.optimizer.cost.graph_cost import GraphCost, PricedGroup
from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.kernels.origin import Origin
from superopt.optimizer.cost.latency import Latency, Recorded
from superopt.optimizer.cost.memory import Memory, MemoryLimit
from superopt.optimizer.cost.nominal import Nominal
from superopt.optimizer.cost.objective import (
    Flops,
    Launches,
    Objective,
    PeakMemory,
    Price,
    Traffic,
)
from superopt.optimizer.cost.profile import CostProfile, profile_of, read_profile
from superopt.optimizer.cost.runtime.devices import physical_cores
from superopt.optimizer.cost.runtime.session import Provider, device_name, runtime_version
from superopt.optimizer.cost.sizes import Sizes
from superopt.optimizer.cost.store import CostStore, MemoryCostStore
from superopt.optimizer.cost.target import HERE, Target, objective_of

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
    "estimate",
    "objective_of",
    "physical_cores",
    "profile_of",
    "read_profile",
    "runtime_version",
]
