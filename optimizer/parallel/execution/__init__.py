"""Execute a plan on virtual devices of one machine, task by task, counting every message."""

from superopt.optimizer.parallel.execution.executor import Execution, Executor, execute
from superopt.optimizer.parallel.execution.host import HostMachine
from superopt.optimizer.parallel.execution.jax_devices import JaxMachine
from superopt.optimizer.parallel.execution.machine import Machine
from superopt.optimizer.parallel.execution.program import run_program, save_program

__all__ = [
    "Execution",
    "Executor",
    "HostMachine",
    "JaxMachine",
    "Machine",
    "execute",
    "run_program",
    "save_program",
]
