"""Joint fusions by name: DisCo's search as published, and ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from superopt.ir.plan import Plan
from superopt.optimizer.fusion.joint.baselines import baselines
from superopt.optimizer.fusion.joint.plans import plan_of
from superopt.optimizer.fusion.joint.published import backtracking
from superopt.optimizer.fusion.joint.refined import refined
from superopt.optimizer.fusion.joint.sums import GradientSums

DISCO, JOINT_FUSION = "disco", "joint-fusion"
JOINT_STRATEGIES = (DISCO, JOINT_FUSION)


@dataclass(frozen=True)
class JointPlan:
    """The plan that a search found, the candidates that it timed, and microseconds of the rules with which it
    is compared."""

    plan: Plan
    tried: int
    baselines: Mapping[str, float]


def joint_plan(
    sums: GradientSums,
    strategy: str,
    seed: int,
    is_over: Callable[[], bool],
    tell: Callable[[int, float], None],
) -> JointPlan:
    """Searches by one of ``JOINT_STRATEGIES``; the other arguments are those of ``backtracking``."""
    problem = sums.problem()
    rules = baselines(problem)
    if strategy == DISCO:
        found = backtracking(problem, seed, is_over=is_over, tell=tell)
    else:
        found = refined(problem, rules, seed, is_over=is_over, tell=tell, sums=sums)
    times = {name: rule.timed.microseconds for name, rule in rules.items()}
    return JointPlan(plan_of(found.joint), found.tried, times)
