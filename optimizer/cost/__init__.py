"""What graphs cost: kernels measured in ONNX Runtime, an analytic price where measuring is impossible."""

from optimizer.cost.graph_cost import GraphCost, PricedGroup
from optimizer.cost.kernel import Kernel, Sizes
from optimizer.cost.memory import Memory, MemoryLimit
from optimizer.cost.objective import (
    OBJECTIVES,
    Flops,
    Latency,
    Launches,
    Objective,
    PeakMemory,
    Price,
    Traffic,
    objective_of,
)
from optimizer.cost.origin import Origin
from optimizer.cost.runtime import device_name, physical_cores, runtime_version
from optimizer.cost.store import CostStore, MemoryCostStore

__all__ = [
    "OBJECTIVES",
    "CostStore",
    "Flops",
    "GraphCost",
    "Kernel",
    "Latency",
    "Launches",
    "Memory",
    "MemoryCostStore",
    "MemoryLimit",
    "Objective",
    "Origin",
    "PeakMemory",
    "Price",
    "PricedGroup",
    "Sizes",
    "Traffic",
    "device_name",
    "objective_of",
    "physical_cores",
    "runtime_version",
]
