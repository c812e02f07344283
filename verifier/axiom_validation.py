"""Validation of the axioms: exact evaluation on many instances, symbolic execution on small ones.

As in the dissertation, section 2.4, but over sampled shapes of sizes up to 7 instead of all up to 4. An axiom
is valid only if enough well-typed instances were found and none differs; symbolic execution that is undecided
(laws of the exponential are not known to the solver) is reported and leaves the evaluation to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from superopt.errors import SuperoptError
from superopt.ir.terms import Equation
from verifier.refute import Effort, refute
from verifier.validate import DIFFERENT, validate

LEAST_INSTANCES = 5
THOROUGH = Effort(schemes=40, per_scheme=3, stack=3)


@dataclass(frozen=True)
class AxiomValidation:
    """What is known of one axiom; ``symbolic`` counts instances decided for all real inputs."""

    name: str
    valid: bool
    instances: int
    symbolic: int
    reason: str


def validate_axiom(
    axiom: Equation, effort: Effort = THOROUGH, symbolic_instances: int = 2
) -> AxiomValidation:
    """Evaluates and executes one axiom; never raises for what an operator refuses."""
    try:
        refutation = refute(axiom, effort)
    except SuperoptError as error:
        return AxiomValidation(axiom.name, valid=False, instances=0, symbolic=0, reason=str(error))
    count = refutation.well_typed
    failure = refutation.counterexample or refutation.suspicious
    if failure is None and count < LEAST_INSTANCES:
        failure = f"expected at least {LEAST_INSTANCES} well-typed instances, found {count}"
    if failure is not None:
        return AxiomValidation(axiom.name, valid=False, instances=count, symbolic=0, reason=failure)
    if symbolic_instances <= 0:
        return AxiomValidation(axiom.name, valid=True, instances=count, symbolic=0, reason="")
    validation = validate(axiom, symbolic_instances)
    different = (validation.failure or "").endswith(DIFFERENT)
    return AxiomValidation(
        axiom.name,
        valid=not different,
        instances=count,
        symbolic=len(validation.validated),
        reason=validation.failure or "",
    )


def validate_axioms(
    axioms: Sequence[Equation],
    *,
    jobs: int = 1,
    effort: Effort = THOROUGH,
    symbolic_instances: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[AxiomValidation]:
    """Every axiom, in order, over a pool of processes when ``jobs`` is more than one."""
    check = partial(validate_axiom, effort=effort, symbolic_instances=symbolic_instances)
    if jobs > 1:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            yield from _counted(pool.map(check, axioms, chunksize=8), len(axioms), progress)
    else:
        yield from _counted(map(check, axioms), len(axioms), progress)


def _counted(
    results: Iterator[AxiomValidation], total: int, progress: Callable[[int, int], None] | None
) -> Iterator[AxiomValidation]:
    for done, result in enumerate(results, 1):
        if progress:
            progress(done, total)
        yield result
