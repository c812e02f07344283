"""Optimal recomputation of small programs in their order, as an integer program (Checkmate, MLSys 2020).

Solved by HiGHS in SciPy, which is no dependency of superopt: it judges heuristics in tests and benchmarks.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingModuleSource=false
# pyright: reportArgumentType=false
# SciPy ships no types.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from superopt.errors import MissingServiceError, UnsupportedError
from superopt.optimizer.memory.liveness import Program
from superopt.optimizer.memory.recompute import Fitted

_MOST = 40
"""Operations of the largest program."""

_HALF = 0.5


def optimal(program: Program, limit: int, seconds: float = 60.0) -> Fitted | None:
    """The cheapest schedule within the limit among those that run operations for the first time in the listed
    order; None where there is none. Raises UnsupportedError for a program with views, overwritten operands
    or workspaces, for one with more than 40 operations, and where the time is over; MissingServiceError
    without SciPy."""
    if len(program.operations) > _MOST:
        raise UnsupportedError(f"expected at most {_MOST} operations, got {len(program.operations)}")
    if any(one.is_view or one.overwrites or one.workspace for one in program.operations):
        raise UnsupportedError("expected operations without views, overwritten operands and workspaces")
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array
    except ImportError:
        raise MissingServiceError("SciPy is needed: run `pip install scipy`") from None
    model = _Model(program, limit)
    rows, columns, values = zip(*model.entries, strict=True)
    shape = (len(model.lower), len(model.low))
    matrix = csr_array((values, (rows, columns)), shape=shape)
    solved = milp(
        np.array(model.costs),
        constraints=LinearConstraint(matrix, np.array(model.lower), np.array(model.upper)),
        bounds=Bounds(np.array(model.low), np.array(model.high)),
        integrality=np.array(model.is_whole, int),
        options={"time_limit": seconds},
    )
    if solved.x is None:
        if solved.status == 2:  # infeasible
            return None
        raise UnsupportedError(f"the optimum was not found: {solved.message}")
    schedule = [index for runs in model.runs for index, run in enumerate(runs) if solved.x[run] > _HALF]
    return Fitted.of(program, schedule)


@dataclass
class _Model:
    """Variables and constraints. Stage ``t`` ends with the first run of operation ``t``; ``runs[t][i]`` is
    whether operation ``i`` runs in it, ``keeps[t][i]`` whether its results are alive at its beginning."""

    program: Program
    limit: int
    costs: list[float] = field(default_factory=list[float])
    low: list[float] = field(default_factory=list[float])
    high: list[float] = field(default_factory=list[float])
    is_whole: list[int] = field(default_factory=list[int])
    lower: list[float] = field(default_factory=list[float])
    upper: list[float] = field(default_factory=list[float])
    entries: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])

    def __post_init__(self) -> None:
        count = len(self.program.operations)
        self.bytes = [
            sum(self.program.sizes[tensor] for tensor in one.writes if tensor not in self.program.placed)
            for one in self.program.operations
        ]
        self.users = [
            [user for user in range(count) if index in self.program.sources[user]] for index in range(count)
        ]
        self.runs = [[self._run(stage, index) for index in range(count)] for stage in range(count)]
        self.keeps = [[self._keep(stage, index) for index in range(count)] for stage in range(count + 1)]
        for stage in range(count):
            self._order(stage)
            self._memory(stage)

    def _variable(self, low: float, high: float, cost: float = 0.0, *, whole: int = 1) -> int:
        self.low.append(low)
        self.high.append(high)
        self.costs.append(cost)
        self.is_whole.append(whole)
        return len(self.low) - 1

    def _constraint(self, terms: Mapping[int, float], low: float, high: float) -> None:
        row = len(self.lower)
        self.lower.append(low)
        self.upper.append(high)
        self.entries.extend((row, column, value) for column, value in terms.items())

    def _run(self, stage: int, index: int) -> int:
        operation = self.program.operations[index]
        most = float(index == stage or (index < stage and operation.repeatable))
        return self._variable(float(index == stage), most, operation.cost)

    def _keep(self, stage: int, index: int) -> int:
        is_output = any(tensor in self.program.outputs for tensor in self.program.operations[index].writes)
        is_made = index < stage
        return self._variable(float(is_made and is_output), float(is_made))

    def _order(self, stage: int) -> None:
        runs, keeps = self.runs[stage], self.keeps[stage]
        for index, sources in enumerate(self.program.sources):
            for source in sources:
                self._constraint({runs[index]: 1, runs[source]: -1, keeps[source]: -1}, -np.inf, 0)
            self._constraint({self.keeps[stage + 1][index]: 1, runs[index]: -1, keeps[index]: -1}, -np.inf, 0)

    def _memory(self, stage: int) -> None:
        """Bytes after each operation, before its operands are freed."""
        runs, keeps = self.runs[stage], self.keeps[stage]
        room = float(self.limit - self.program.resident)
        used = {keeps[index]: float(size) for index, size in enumerate(self.bytes)}
        for index in range(stage + 1):
            used[runs[index]] = used.get(runs[index], 0.0) + self.bytes[index]
            # what runs again although it is kept is no gain, so that counting it twice excludes nothing
            self._constraint(used, -np.inf, room)
            for freed in (*self.program.sources[index], index):
                used[self._freed(stage, freed, index)] = -float(self.bytes[freed])

    def _freed(self, stage: int, tensor: int, after: int) -> int:
        """Whether results are freed after an operation that ran: nothing reads them later in the stage, and
        they are not kept."""
        freed = self._variable(0, 1)
        later = [self.runs[stage][user] for user in self.users[tensor] if after < user <= stage]
        self._constraint({freed: 1, self.runs[stage][after]: -1}, -np.inf, 0)
        for hazard in (*later, self.keeps[stage + 1][tensor]):
            self._constraint({freed: 1, hazard: 1}, -np.inf, 1)
        return freed
