"""The simulator: predicts the time and memory of a plan on a cluster without its devices."""

from superopt.optimizer.parallel.simulator.assembly import require_one_stage
from superopt.optimizer.parallel.simulator.objective import ParallelObjective
from superopt.optimizer.parallel.simulator.simulation import Simulation, TimelineEvent
from superopt.optimizer.parallel.simulator.simulator import Simulator, simulate
from superopt.optimizer.parallel.simulator.trace import write_trace

__all__ = [
    "ParallelObjective",
    "Simulation",
    "Simulator",
    "TimelineEvent",
    "require_one_stage",
    "simulate",
    "write_trace",
]
