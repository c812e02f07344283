"""Verdicts, proofs and the shipped library depend on counts, never on a clock or on the load."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import z3

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.verifier import Status, verify, verify_most_general
from superopt.verifier.certificates.certificate import certificate_object
from superopt.verifier.conditions.inference import infer_condition
from superopt.verifier.prove.solver import SolverLimits
from superopt.verifier.refute import real_solver, validation

ROOT = Path(__file__).parents[2]
CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
TIMES_AS_FAST = 50

PROVED = (
    "relu(transpose(x)) => transpose(relu(x))",
    "clip[low=low, high=high](x) => clip[low=0, high=high](maximum(x, full[value=low])) where low >= 0",
    "bias_add[axis=-1](lookup(x, y), z) <=> lookup(bias_add[axis=-1](x, z), y)",
)
"""By one attempt; after other attempts; with queries about real numbers in its validation."""
REFUTED = "conv[padding=same_upper](x, w) => conv[padding=same_lower](x, w)"
UNPROVED = "sub(x, broadcast(sub(x, x))) => clip[low=-9, high=9](x)"

ON_THE_PATH = (
    "axioms",
    "generator",
    "optimizer/canonical",
    "optimizer/search",
    "substitution_db/rules",
    "superopt/domains",
    "superopt/equations",
    "superopt/instances",
    "superopt/ir",
    "superopt/journeys/library",
    "superopt/onnx_io",
    "superopt/ops",
    "superopt/processes/pool.py",
    "superopt/rewriting",
    "superopt/zoo",
    "verifier",
)
"""What `make library` runs between an empty database and the shipped file."""

READS_A_CLOCK = {
    "generator/run/checkpoint.py": "deletes results that another run left a month ago",
    "generator/run/discovery.py": "seconds in progress and in the printed table",
    "generator/run/stages.py": "seconds in the printed table",
    "generator/run/usage.py": "seconds in the printed table",
    "optimizer/search/protocol.py": "budget of a user; trials have none; and the rate of reports",
    "superopt/journeys/library/adjoints.py": "seconds in a result",
    "superopt/journeys/library/bilinear.py": "seconds in a result",
    "verifier/adjoints/validation.py": "seconds in a result",
    "verifier/axiom_checks/budgeted.py": "--budget of analyses of axioms, which decide about no rule",
    "verifier/axiom_checks/validation.py": "seconds in a result, and how often answers are written",
    "verifier/prove/proof_search.py": "milliseconds of a proof, which the shipped file does not have",
}
LIMITS_TIME = {
    "generator/run/executors.py": "connecting to Dask; tasks have no limit",
    "superopt/journeys/library/peers/coverage.py": "conditions of a peer's rules, which are not stored",
    "verifier/adjoints/symbolic.py": "cases reported as undecided; adjoint statements are no rules",
    "verifier/adjoints/validation.py": "a day",
    "verifier/axiom_checks/validation.py": "a day",
    "verifier/pool.py": "a day, after which there is no verdict; 300 s for what is not stored",
}


def _sources() -> Iterator[tuple[str, ast.AST]]:
    for place in ON_THE_PATH:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), ast.parse(file.read_text("utf-8"))


def _reads_a_clock(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name("time"), attr=name):
            return name.removesuffix("_ns") in CLOCKS
        case ast.Attribute(attr="now" | "utcnow" | "today"):
            return True
        case ast.ImportFrom(module="time"):
            return True
        case _:
            return False


def _limits_time(node: ast.AST) -> bool:
    match node:
        case ast.keyword(arg="timeout") | ast.Call(func=ast.Name("Allowance")):
            return True
        case ast.Constant(value="timeout" | "tlimit" | "tlimit-per"):
            return True
        case ast.Attribute(value=ast.Name("signal"), attr="alarm" | "setitimer"):
            return True
        case _:
            return False


def _told(forms: Sequence[str]) -> list[object]:
    """All that is stored of the verdict on a rule, but its time."""
    equation, verdict = verify_most_general([parse_equation(form) for form in forms], load_axioms())
    certificate = certificate_object(verdict.certificate) if verdict.certificate else None
    condition = infer_condition(equation, load_axioms()) if verdict.status is Status.REFUTED else None
    under = None if condition is None else str(condition.equation)
    return [str(equation), repr(replace(verdict, milliseconds=0.0)), json.dumps(certificate), under]


@pytest.fixture(scope="module")
def usual() -> Mapping[str, list[object]]:
    return {rule: _told([rule]) for rule in (*PROVED, REFUTED, UNPROVED)}


def test_the_rules_here_have_all_kinds_of_verdicts(usual: Mapping[str, list[object]]) -> None:
    kinds = [str(usual[rule][1]).split("'")[1] for rule in (PROVED[-1], REFUTED, UNPROVED)]
    assert kinds == ["verified", "refuted", "unproved"]


@pytest.mark.parametrize("rule", [*PROVED, REFUTED, UNPROVED])
def test_a_verdict_is_the_same_where_clocks_are_fast(
    rule: str, usual: Mapping[str, list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in CLOCKS:
        clock = getattr(time, name)
        monkeypatch.setattr(time, name, lambda clock=clock: TIMES_AS_FAST * clock())
    assert _told([rule]) == usual[rule]


def test_no_query_to_z3_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    given: set[str] = set()
    real = z3.Solver.set

    def told(self: z3.Solver, *args: object, **keys: object) -> None:
        given.update(keys)
        real(self, *args, **keys)

    monkeypatch.setattr(z3.Solver, "set", told)
    for rule in PROVED:
        _told([rule])
    assert given == {
        "auto_config",
        "core.minimize",
        "max_memory",
        "mbqi",
        "qi.max_instances",
        "rlimit",
        "unsat_core",
    }


def test_polynomials_of_roots_are_given_up_after_counted_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without that count, Z3 computes for minutes about this rule; it is validated on smaller instances."""
    asked: list[tuple[str, int]] = []
    check, why_not_zero = z3.Solver.check, real_solver.why_not_zero

    def told(self: z3.Solver, *assumptions: object) -> z3.CheckSatResult:
        answer = check(self, *assumptions)
        reason = self.reason_unknown() if answer == z3.unknown else ""
        asked.append((reason, int(self.statistics().get_key_value("conflicts"))))
        return answer

    def validating(*arguments: Any) -> str:
        with monkeypatch.context() as within:
            within.setattr(z3.Solver, "check", told)
            return why_not_zero(*arguments)

    monkeypatch.setattr(validation, "why_not_zero", validating)
    rule = parse_equation(
        "lookup(rms_normalization[epsilon=epsilon](x, y), z)"
        " <=> rms_normalization[epsilon=epsilon](lookup(x, z), y)"
    )
    verdict = verify(rule, load_axioms())
    assert verdict.validated_shapes == (
        "x: f32[1, 2], y: f32[2], z: f32[3, 1, 3], epsilon=3/4",
        "x: f32[2, 1], y: f32[1], z: f32[1, 1, 3], epsilon=3/4",
    )
    given_up = sorted({conflicts for reason, conflicts in asked if "conflicts" in reason})
    assert given_up[0] >= real_solver.CONFLICTS_TOGETHER
    assert real_solver.MOST_CONFLICTS <= given_up[-1] < real_solver.MOST_CONFLICTS + 10


def test_a_verdict_depends_neither_on_hashes_nor_on_what_was_judged_before(
    usual: Mapping[str, list[object]],
) -> None:
    script = (
        "import json; from tests.verifier.test_time import PROVED, REFUTED, UNPROVED, _told\n"
        "print(json.dumps({rule: _told([rule]) for rule in (UNPROVED, REFUTED, *PROVED[::-1])}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == usual


def test_judged_rules_leave_no_memory_behind_that_a_limit_would_count() -> None:
    """Z3's ``max_memory`` counts that of the whole process, whose rules depend on the number of jobs."""
    _told([PROVED[0]])
    before = z3.Z3_get_estimated_alloc_size()
    for rule in (*PROVED, UNPROVED):
        _told([rule])
    kept_megabytes = (z3.Z3_get_estimated_alloc_size() - before) / 1e6
    assert kept_megabytes < SolverLimits().megabytes / 100


def test_clocks_are_read_only_for_reports() -> None:
    found = {path for path, tree in _sources() if any(map(_reads_a_clock, ast.walk(tree)))}
    assert found == READS_A_CLOCK.keys()


def test_times_limit_nothing_that_is_stored() -> None:
    found = {path for path, tree in _sources() if any(map(_limits_time, ast.walk(tree)))}
    assert found == LIMITS_TIME.keys()


def test_sizes_of_large_images_are_drawn_in_the_order_of_their_names() -> None:
    script = (
        "from superopt.equations import parse_equation\n"
        "from superopt.instances.sampler import InstanceSampler\n"
        "large = 'conv[dilation=(9, 9)](x, y: f32[4, 2, 3, 3]) <=> conv[dilation=(9, 9)](x, y)'\n"
        "for one in InstanceSampler(parse_equation(large), 5).instances(6, 3): print(one)"
    )
    drawn = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    assert len(drawn) == 1
