"""The simulator: what a plan takes on a cluster, without any of its devices."""

from optimizer.parallel.simulator.objective import ParallelObjective
from optimizer.parallel.simulator.simulation import Simulation, TimelineEvent
from optimizer.parallel.simulator.simulator import Simulator, simulate
from optimizer.parallel.simulator.trace import write_trace

__all__ = [
    "ParallelObjective",
    "Simulation",
    "Simulator",
    "TimelineEvent",
    "simulate",
    "write_trace",
]
