"""Joint fusions by name: DisCo's search as published, and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from superopt.ir.plan import Plan
from superopt.optimizer.fusion.joint.baselines import baselines
from superopt.optimizer.fusion.joint.plans import plan_of
from superopt.optimizer.fusion.joint.problem import Problem
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


def joint_plans(
    problem: Problem,
    sums: GradientSums,
    strategy: str,
    seed: int,
    is_over: Callable[[], bool],
    tell: Callable[[int, float], None],
) -> Iterator[JointPlan]:
    """What one of ``JOINT_STRATEGIES`` finds, then plans for the case that this does not fit into memory: of
    our search without dividing sums or ordering kernels, and of the rules, the fastest first. The other
    arguments are those of ``backtracking``."""
    rules = baselines(problem)
    times = {name: rule.timed.microseconds for name, rule in rules.items()}
    if strategy == DISCO:
        found = backtracking(problem, seed, is_over=is_over, tell=tell)
    else:
        found = refined(problem, rules, seed, is_over, tell, sums)
    yield JointPlan(plan_of(found.joint), found.tried, times)
    if strategy != DISCO:
        simpler = refined(problem, rules, seed, is_over, orders=())
        yield JointPlan(plan_of(simpler.joint), found.tried + simpler.tried, times)
    for rule in sorted(rules.values(), key=lambda rule: rule.timed.microseconds):
        yield JointPlan(plan_of(rule.joint), found.tried, times)
