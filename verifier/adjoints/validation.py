"""Validation of adjoint statements: every instance up to a bound, random ones of larger ranks, small ones for
all real inputs.

An instance is a well-typed application of the operator, and values of the statement's attribute variables. A
statement claims nothing where its gradient is not well-typed or a condition does not hold; elsewhere it must
be right, also where another statement for the same operand comes before it.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib import resources
from typing import cast

import numpy as np

from superopt.equations import Adjoint, equation_of_adjoint, format_adjoint
from superopt.errors import IllTypedError, SuperoptError
from superopt.instances.gradients import gradient_instance
from superopt.instances.instance import Instance
from superopt.ir.terms import applications
from superopt.ir.types import ElementType, TensorType
from superopt.verifier.adjoints.applications import THOROUGH, AdjointEffort, Applications, TypedApplication
from superopt.verifier.adjoints.pairing import Outcome, Paired, paired
from superopt.verifier.adjoints.symbolic import holds_for_all_reals
from superopt.verifier.content_cache import ContentCache, content_key
from superopt.verifier.hashes import code_lines, operators_hash, verifier_hash
from superopt.verifier.pool import Allowance, judge_all
from superopt.verifier.seeds import seed_of

NO_CACHE = ContentCache(None)
_PATIENT = Allowance(seconds=24 * 3600)
_SMALL = range(2, 13)
"""Elements of the operands of an instance that is checked for all real inputs."""

_PRECISIONS = (ElementType.FLOAT, ElementType.DOUBLE, ElementType.FLOAT16, ElementType.BFLOAT16)
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class AdjointValidation:
    """The result for one statement.

    At ``instances`` both sides are equal, in ``exact`` of them in the prime field too; elsewhere roots of
    numbers that are no squares leave only floats. ``elsewhere`` counts applications of the operator about
    which the statement claims nothing, ``undefined`` those without a sample at which it is defined.
    ``symbolic`` instances hold for all real inputs; ``undecided`` ones are not shown to. ``reason`` has the
    counterexample: types, attributes and both numbers. ``seconds`` are of the processor.
    """

    name: str
    valid: bool = True
    instances: int = 0
    exact: int = 0
    elsewhere: int = 0
    undefined: int = 0
    symbolic: int = 0
    undecided: int = 0
    seconds: float = 0.0
    reason: str = ""


def validate_adjoint(
    adjoint: Adjoint, effort: AdjointEffort = THOROUGH, cache: ContentCache = NO_CACHE
) -> AdjointValidation:
    """The result for one statement, from the cache where it is there; a refused statement is invalid."""
    key = content_key((adjoint.name, *_depends(adjoint), repr(effort)))
    kept = cache.get(key)
    if isinstance(kept, dict):
        return AdjointValidation(**cast("dict[str, str]", kept))  # pyright: ignore[reportArgumentType]
    began = time.process_time()
    try:
        found = _Validator(adjoint, effort).result()
    except SuperoptError as error:
        found = AdjointValidation(adjoint.name, valid=False, reason=str(error))
    found = replace(found, seconds=time.process_time() - began)
    cache.put(key, asdict(found))
    return found


def validate_adjoints(
    adjoints: Sequence[Adjoint],
    *,
    jobs: int = 0,
    effort: AdjointEffort = THOROUGH,
    cache: ContentCache = NO_CACHE,
    progress: Progress | None = None,
) -> Iterator[AdjointValidation]:
    """Every statement, in order, in ``jobs`` processes (0: in this process)."""
    validate = partial(validate_adjoint, effort=effort, cache=cache)
    return judge_all(validate, adjoints, lost=_lost, jobs=jobs, progress=progress, allowance=_PATIENT)


def _lost(adjoint: Adjoint, reason: str) -> AdjointValidation:
    return AdjointValidation(adjoint.name, valid=False, reason=reason)


class _Validator:
    """The validation of one statement; counts as it goes."""

    def __init__(self, adjoint: Adjoint, effort: AdjointEffort) -> None:
        self._adjoint = adjoint
        self._effort = effort
        self._applications = Applications(adjoint, effort)
        self._generator = np.random.default_rng(seed_of(equation_of_adjoint(adjoint), 43))
        self._small: dict[object, Instance] = {}
        self._found = AdjointValidation(adjoint.name)

    def result(self) -> AdjointValidation:
        """All instances of the effort, up to the first counterexample; of the first precision in which the
        statement claims something."""
        for element in _PRECISIONS:
            for application in self._applications:
                self._try(application, element)
                if not self._found.valid:
                    return self._found
            if self._found.instances:
                break
        else:
            return replace(self._found, valid=False, reason="expected a well-typed instance, found none")
        for instance in itertools.islice(self._small.values(), self._effort.symbolic):
            if holds_for_all_reals(self._adjoint, instance):
                self._found = replace(self._found, symbolic=self._found.symbolic + 1)
            else:
                self._found = replace(self._found, undecided=self._found.undecided + 1)
        return self._found

    def _try(self, application: TypedApplication, element: ElementType) -> None:
        adjoint, found = self._adjoint, self._found
        try:
            if element is not ElementType.FLOAT:
                application = self._applications.with_element(application, element)
            operands = application.operands
            instance = gradient_instance(adjoint, operands, application.result, application.attributes)
        except IllTypedError:
            self._found = replace(found, elsewhere=found.elsewhere + 1)
            return
        self._found = _counted(found, paired(adjoint, instance, self._generator), instance)
        if _elements(operands) in _SMALL:
            ranks = tuple(type_.rank for type_ in operands)
            self._small.setdefault((ranks, repr(sorted(instance.attributes.items()))), instance)


def _counted(found: AdjointValidation, answer: Paired, instance: Instance) -> AdjointValidation:
    match answer.outcome:
        case Outcome.UNEQUAL:
            return replace(found, valid=False, reason=f"{instance}: {answer.reason}")
        case Outcome.UNDEFINED:
            return replace(found, undefined=found.undefined + 1)
        case Outcome.EXACT:
            return replace(found, instances=found.instances + 1, exact=found.exact + 1)
        case Outcome.ROUNDED:
            return replace(found, instances=found.instances + 1)


def _elements(types: Sequence[TensorType]) -> int:
    return sum(math.prod(cast("tuple[int, ...]", type_.shape)) for type_ in types)


def _depends(adjoint: Adjoint) -> tuple[str, ...]:
    """Everything that an answer about the statement depends on."""
    operators = {term.operator for term in applications(adjoint.application, adjoint.gradient)}
    return (format_adjoint(adjoint), operators_hash(operators), verifier_hash(), _code())


@cache
def _code() -> str:
    """The sources that enumerate and evaluate instances."""
    texts: list[str] = []
    for package in (
        "superopt.verifier.adjoints",
        "superopt.verifier.axiom_checks.exhaustive",
        "superopt.instances",
    ):
        entries = sorted(resources.files(package).iterdir(), key=lambda entry: entry.name)
        texts.extend(entry.read_text("utf-8") for entry in entries if entry.name.endswith(".py"))
    return content_key(map(code_lines, texts))


__all__ = [
    "AdjointValidation",
    "validate_adjoint",
    "validate_adjoints",
]
