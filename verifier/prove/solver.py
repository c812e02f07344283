"""Z3 as a prover of shapeless problems, with extraction of the axiom instances used."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import enum
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import z3

from superopt.ir.terms import AttributeTerm, Equation, Term
from superopt.solver_memory import require_memory
from superopt.verifier.prove.smtlib import (
    Vocabulary,
    axiom_command,
    goal_command,
    ground_command,
    quantified_names,
)

Expression = Any  # z3 has no types


class Strategy(enum.StrEnum):
    """How Z3 instantiates quantifiers."""

    PATTERNS = "patterns"
    MODELS = "models"


@dataclass(frozen=True)
class SolverLimits:
    """Limits of one solver query. ``resources`` is Z3's deterministic unit, about 2 million per second.
    Matching can run for minutes without checking it, so the number of axiom instances is limited as well.

    No query is limited by time, so that its answer is the same on every machine."""

    resources: int = 12_000_000
    megabytes: int = 1500
    instances: int = 3_000


def least(one: SolverLimits, other: SolverLimits) -> SolverLimits:
    """Return the smaller limit of each kind."""
    return SolverLimits(
        resources=min(one.resources, other.resources),
        megabytes=min(one.megabytes, other.megabytes),
        instances=min(one.instances, other.instances),
    )


@dataclass(frozen=True)
class AxiomInstance:
    """One instance of an axiom: the terms and attributes for its variables."""

    axiom: str
    terms: tuple[tuple[str, Term], ...]
    attributes: tuple[tuple[str, AttributeTerm], ...]


@dataclass(frozen=True)
class Answer:
    """The sufficient steps if ``proved``, otherwise the reason why there is no proof."""

    proved: bool
    steps: tuple[AxiomInstance, ...]
    reason: str


def ask(goal: Equation, axioms: Sequence[Equation], strategy: Strategy, limits: SolverLimits) -> Answer:
    """Ask whether the goal follows from the axioms as shapeless terms; only ``unsat`` counts as a proof.

    Raises MemoryError if Z3 runs out of memory.
    """
    vocabulary = Vocabulary()
    commands = [axiom_command(axiom, vocabulary) for axiom in axioms]
    commands.append(goal_command(goal, vocabulary))
    text = "\n".join((*vocabulary.declarations(), *commands))
    reader = _Reader({axiom.name: axiom for axiom in axioms}, vocabulary)
    try:
        for listener in (None, reader):
            reason = _failure(text, strategy, limits, listener)
            if reason:
                return Answer(proved=False, steps=(), reason=reason)
    except z3.Z3Exception as error:
        require_memory(str(error))
        return Answer(proved=False, steps=(), reason=f"the solver failed: {error}")
    ground = tuple(AxiomInstance(axiom.name, (), ()) for axiom in axioms if not any(quantified_names(axiom)))
    return Answer(proved=True, steps=(*ground, *reader.steps()), reason="")


def _failure(text: str, strategy: Strategy, limits: SolverLimits, listener: _Reader | None) -> str:
    """Return an empty string if the problem is contradictory, otherwise the reason why that is unknown.

    Searching with a listener takes ten times as long, so only searches that succeed are repeated with one.
    """
    solver = z3.SimpleSolver(z3.Context())
    solver.set(
        auto_config=False,
        mbqi=strategy is Strategy.MODELS,
        rlimit=limits.resources,
        max_memory=limits.megabytes,
        **{"qi.max_instances": limits.instances},
    )
    solver.from_string(text)
    if listener is not None:
        z3.OnClause(solver, listener.clause)
    answer = solver.check()
    if answer == z3.unsat:
        return ""
    reason = solver.reason_unknown()
    require_memory(reason)
    return f"{answer}: {reason}"


class GroundSteps:
    """Steps and their axiom instances, queried repeatedly for subsets that imply a goal."""

    def __init__(self, goal: Equation, steps: Mapping[AxiomInstance, Equation], limits: SolverLimits) -> None:
        self._goal = goal
        self._steps = steps
        self._limits = limits
        self._names = {step: f"s{i}" for i, step in enumerate(steps)}
        self._by_name = {name: step for step, name in self._names.items()}
        vocabulary = Vocabulary()
        commands = [ground_command(self._names[step], each, vocabulary) for step, each in steps.items()]
        commands.append(goal_command(goal, vocabulary))
        self._context = z3.Context()
        self._solver = z3.SimpleSolver(self._context)
        self._solver.set(rlimit=limits.resources, max_memory=limits.megabytes)
        self._solver.set(unsat_core=True)
        self._solver.from_string("\n".join((*vocabulary.declarations(), *commands)))

    def core(self, struck: Container[AxiomInstance] = ()) -> tuple[AxiomInstance, ...] | None:
        """Return a small subset of the steps, without ``struck`` ones, that implies the goal by congruence
        alone, or None."""
        enough = self._enough(struck)
        if enough is None or len(enough) < 2:
            return enough
        few = GroundSteps(self._goal, {step: self._steps[step] for step in enough}, self._limits)
        few._solver.set(**{"core.minimize": True})
        return few._enough(()) or enough

    def _enough(self, struck: Container[AxiomInstance]) -> tuple[AxiomInstance, ...] | None:
        chosen = [z3.Bool(name, self._context) for step, name in self._names.items() if step not in struck]
        if self._solver.check(*chosen) != z3.unsat:
            require_memory(self._solver.reason_unknown())
            return None
        names = {str(name) for name in self._solver.unsat_core()}
        return tuple(step for name, step in self._by_name.items() if name in names)


class _Reader:
    """Collects quantifier instances as terms; malformed terms are omitted, which is safe."""

    def __init__(self, axioms: Mapping[str, Equation], vocabulary: Vocabulary) -> None:
        self._axioms = axioms
        self._vocabulary = vocabulary
        self._terms: dict[int, Term | None] = {}
        self._proofs: list[Expression] = []

    def clause(self, proof: Expression, _dependencies: Expression, _clause: Expression) -> None:
        """Callback of Z3 for each clause; records clauses that name a quantifier and the bound terms."""
        if proof is not None and proof.decl().name() == "inst":
            self._proofs.append(proof)

    def steps(self) -> tuple[AxiomInstance, ...]:
        """Return all distinct instances in the order of creation."""
        read = (self._step(proof) for proof in self._proofs)
        return tuple(dict.fromkeys(step for step in read if step is not None))

    def _step(self, proof: Expression) -> AxiomInstance | None:
        quantifier = proof.arg(0)
        axiom = self._axioms.get(quantifier.qid()) if z3.is_quantifier(quantifier) else None
        bound = next((c for c in proof.children() if z3.is_app(c) and c.decl().name() == "bind"), None)
        if axiom is None or bound is None:
            return None
        attributes, tensors = quantified_names(axiom)
        values = bound.children()
        named = [self._attribute(value) for value in values[: len(attributes)]]
        terms = [self._term(value) for value in values[len(attributes) :]]
        if any(value is None for value in (*named, *terms)):
            return None
        return AxiomInstance(
            axiom.name,
            tuple(zip(tensors, cast("list[Term]", terms), strict=True)),
            tuple(zip(attributes, cast("list[AttributeTerm]", named), strict=True)),
        )

    def _attribute(self, expression: Expression) -> AttributeTerm | None:
        return self._vocabulary.constants.get(_symbol(expression))

    def _term(self, expression: Expression) -> Term | None:
        key = expression.get_id()
        if key not in self._terms:
            self._terms[key] = self._read(expression)
        return self._terms[key]

    def _read(self, expression: Expression) -> Term | None:
        symbol = _symbol(expression)
        return self._vocabulary.term(symbol, expression.children(), self._attribute, self._term)


def _symbol(expression: Expression) -> str:
    return f"|{expression.decl().name()}|"


__all__ = ["Answer", "AxiomInstance", "GroundSteps", "SolverLimits", "Strategy", "ask", "least"]
