"""Consistency check of a set of axioms: a search around each axiom, and one with all axioms together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import TypedDict, cast

from superopt.axioms import AxiomSet
from superopt.ir.terms import Equation, Variable
from superopt.verifier.axiom_checks.budgeted import Progress, Task, answers, hashes_of_code
from superopt.verifier.axiom_checks.consistency.falsehoods import Falsehood
from superopt.verifier.axiom_checks.consistency.interpretation import Kind
from superopt.verifier.axiom_checks.consistency.search import (
    Counts,
    Depth,
    Surroundings,
    search_around,
    search_for_collapse,
)
from superopt.verifier.content_cache import ContentCache
from superopt.verifier.prove.solver import SolverLimits

COLLAPSE = Equation((Variable("x"),), (Variable("y"),), name="two inputs are equal")
"""In the place of an axiom: what is asked of all of them, with no term to start from."""

COLLAPSE_LIMITS = SolverLimits(resources=500_000)
_MODULES = ("falsehoods", "goals", "interpretation", "overlaps", "saturation", "search")


@dataclass(frozen=True)
class Consistency:
    """The findings around each checked axiom."""

    surroundings: tuple[Surroundings, ...]

    @cached_property
    def inconsistencies(self) -> tuple[Falsehood, ...]:
        """Falsehoods in typed steps, from fewest axioms first; none from more axioms than another needs."""
        return _minimal(f for s in self.surroundings for f in s.falsehoods if f.kind is not Kind.SHAPELESS)

    @cached_property
    def notes(self) -> tuple[Falsehood, ...]:
        """Falsehoods that follow only where types are forgotten; chains of proofs do not."""
        return _minimal(f for s in self.surroundings for f in s.falsehoods if f.kind is Kind.SHAPELESS)

    @property
    def axioms(self) -> int:
        """The number of axioms that were looked at."""
        return sum(not each.reason for each in self.surroundings if each.axiom != COLLAPSE.name)

    @property
    def undecided(self) -> tuple[Surroundings, ...]:
        """Where there was no search, each with the reason."""
        return tuple(each for each in self.surroundings if each.reason)

    @property
    def counts(self) -> Counts:
        """Total counts of all searches."""
        every = [each.counts for each in self.surroundings]
        return Counts(
            sum(counts.overlaps for counts in every),
            sum(counts.compared for counts in every),
            sum(counts.saturated for counts in every),
            sum(counts.asked for counts in every),
        )


def check_consistency(
    axioms: AxiomSet,
    *,
    names: Sequence[str] | None = None,
    jobs: int = 1,
    seconds: float | None = None,
    cache: ContentCache = ContentCache(None),  # noqa: B008
    depth: Depth = Depth(),  # noqa: B008
    progress: Progress | None = None,
) -> Consistency:
    """Searches around each axiom and asks what all of them say together; or around those named alone.

    ``seconds`` is for everything; what is known from before needs none. With ``jobs`` 0 everything is done
    in this process.
    """
    wanted = (*axioms.equations, COLLAPSE) if names is None else tuple(axioms.by_name[n] for n in names)
    task = Task(
        partial(_search, axioms=axioms, depth=depth),
        _failed,
        asdict,
        _read,
        ("consistency", axioms.hash, repr(depth), repr(COLLAPSE_LIMITS), *_code()),
    )
    found = answers(wanted, task, cache=cache, jobs=jobs, seconds=seconds, progress=progress)
    return Consistency(tuple(answer or _failed(axiom, "the time did not suffice") for axiom, answer in found))


def _search(axiom: Equation, axioms: AxiomSet, depth: Depth) -> Surroundings:
    if axiom != COLLAPSE:
        return search_around(axiom, axioms.beside(axiom), depth)
    falsehood = search_for_collapse(axioms.usual, COLLAPSE_LIMITS)
    return Surroundings(axiom.name, () if falsehood is None else (falsehood,), Counts(asked=1))


def _minimal(falsehoods: Iterable[Falsehood]) -> tuple[Falsehood, ...]:
    kept: list[Falsehood] = []
    for falsehood in sorted(falsehoods, key=lambda each: (len(each.axioms), len(each.steps), each.axioms)):
        if not any(set(other.axioms) <= set(falsehood.axioms) for other in kept):
            kept.append(falsehood)
    return tuple(kept)


def _failed(axiom: Equation, reason: str) -> Surroundings:
    return Surroundings(axiom.name, reason=reason)


class _FalsehoodDocument(TypedDict):
    kind: str
    equation: str
    axioms: list[str]
    steps: list[str]
    instance: str
    difference: str
    reason: str
    found_by: str


class _Document(TypedDict):
    axiom: str
    falsehoods: list[_FalsehoodDocument]
    counts: dict[str, int]
    reason: str


def _read(document: object) -> Surroundings:
    content = cast("_Document", document)
    falsehoods = tuple(
        Falsehood(
            Kind(each["kind"]),
            each["equation"],
            tuple(each["axioms"]),
            tuple(each["steps"]),
            each["instance"],
            each["difference"],
            each["reason"],
            each["found_by"],
        )
        for each in content["falsehoods"]
    )
    return Surroundings(content["axiom"], falsehoods, Counts(**content["counts"]), content["reason"])


def _code() -> tuple[str, ...]:
    return hashes_of_code(
        *(("superopt.verifier.axiom_checks.consistency", f"{name}.py") for name in _MODULES)
    )


__all__ = ["COLLAPSE", "Consistency", "check_consistency"]
