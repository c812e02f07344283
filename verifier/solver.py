"""Runs Z3 on the shapeless problem and reads back which instances of which axioms it used."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import z3

from superopt.errors import IllTypedError
from superopt.ir.terms import AttributeTerm, Equation, Term, Variable
from superopt.ops.terms import application
from verifier.smtlib import Vocabulary, axiom_command, goal_command, ground_command, quantified_names

Expression = Any  # z3 has no types


class Strategy(enum.StrEnum):
    """How Z3 instantiates quantifiers."""

    PATTERNS = "patterns"
    MODELS = "models"


@dataclass(frozen=True)
class Limits:
    """What one question may cost. ``resources`` is Z3's own deterministic unit, about 2 million a second; the
    time is for when the machine is far too slow. Matching can go on for minutes without asking for either,
    so the instances of axioms are limited as well.
    """

    milliseconds: int = 20_000
    resources: int = 12_000_000
    megabytes: int = 1500
    instances: int = 20_000


@dataclass(frozen=True)
class Step:
    """One instance of an axiom: the terms and attributes that its variables stand for."""

    axiom: str
    terms: tuple[tuple[str, Term], ...]
    attributes: tuple[tuple[str, AttributeTerm], ...]


@dataclass(frozen=True)
class Answer:
    """The steps that suffice when ``proved``; otherwise why there is no proof."""

    proved: bool
    steps: tuple[Step, ...]
    reason: str


def ask(goal: Equation, axioms: Sequence[Equation], strategy: Strategy, limits: Limits) -> Answer:
    """Whether the goal follows from the axioms as shapeless terms; anything but ``unsat`` is no proof."""
    vocabulary = Vocabulary()
    commands = [axiom_command(axiom, vocabulary) for axiom in axioms]
    commands.append(goal_command(goal, vocabulary))
    text = "\n".join((*vocabulary.declarations(), *commands))
    context = z3.Context()
    try:
        return _run(text, {axiom.name: axiom for axiom in axioms}, vocabulary, strategy, limits, context)
    except z3.Z3Exception as error:
        return Answer(proved=False, steps=(), reason=f"the solver failed: {error}")


def _run(
    text: str,
    axioms: Mapping[str, Equation],
    vocabulary: Vocabulary,
    strategy: Strategy,
    limits: Limits,
    context: Expression,
) -> Answer:
    solver = z3.SimpleSolver(context)
    solver.set(
        auto_config=False,
        mbqi=strategy is Strategy.MODELS,
        timeout=limits.milliseconds,
        rlimit=limits.resources,
        max_memory=limits.megabytes,
        **{"qi.max_instances": limits.instances},
    )
    reader = _Reader(axioms, vocabulary)
    solver.from_string(text)
    z3.OnClause(solver, reader.clause)
    answer = solver.check()
    if answer != z3.unsat:
        return Answer(proved=False, steps=(), reason=f"{answer}: {solver.reason_unknown()}")
    ground = tuple(Step(axiom.name, (), ()) for axiom in axioms.values() if not any(quantified_names(axiom)))
    return Answer(proved=True, steps=(*ground, *reader.steps()), reason="")


def core(goal: Equation, steps: Sequence[tuple[Step, Equation]], limits: Limits) -> tuple[Step, ...] | None:
    """Steps, few of them, that imply the goal by congruence alone; None when all together do not."""
    enough = _sufficient(goal, steps, limits, minimise=False)
    if enough is None or len(enough) < 2:
        return enough
    grounded = dict(steps)
    return _sufficient(goal, [(step, grounded[step]) for step in enough], limits, minimise=True) or enough


def _sufficient(
    goal: Equation, steps: Sequence[tuple[Step, Equation]], limits: Limits, *, minimise: bool
) -> tuple[Step, ...] | None:
    vocabulary = Vocabulary()
    commands = [ground_command(f"s{i}", grounded, vocabulary) for i, (_, grounded) in enumerate(steps)]
    commands.append(goal_command(goal, vocabulary))
    solver = z3.SimpleSolver(z3.Context())
    solver.set(timeout=limits.milliseconds, rlimit=limits.resources, max_memory=limits.megabytes)
    solver.set(unsat_core=True)
    solver.set(**{"core.minimize": minimise})
    solver.from_string(
        "\n".join(("(set-option :produce-unsat-cores true)", *vocabulary.declarations(), *commands))
    )
    if solver.check() != z3.unsat:
        return None
    names = {str(name) for name in solver.unsat_core()}
    return tuple(step for i, (step, _) in enumerate(steps) if f"s{i}" in names)


class _Reader:
    """Collects quantifier instances as terms; one that is no well-formed term is left out, which is safe."""

    def __init__(self, axioms: Mapping[str, Equation], vocabulary: Vocabulary) -> None:
        self._axioms = axioms
        self._vocabulary = vocabulary
        self._terms: dict[int, Term | None] = {}
        self._proofs: list[Expression] = []

    def clause(self, proof: Expression, _dependencies: Expression, _clause: Expression) -> None:
        """Called by Z3 for each clause; keeps what names a quantifier and the terms bound."""
        if proof is not None and proof.decl().name() == "inst":
            self._proofs.append(proof)

    def steps(self) -> tuple[Step, ...]:
        """All distinct instances in the order of their making."""
        read = (self._step(proof) for proof in self._proofs)
        return tuple(dict.fromkeys(step for step in read if step is not None))

    def _step(self, proof: Expression) -> Step | None:
        quantifier = proof.arg(0)
        axiom = self._axioms.get(quantifier.qid()) if z3.is_quantifier(quantifier) else None
        bound = next((c for c in proof.children() if z3.is_app(c) and c.decl().name() == "bind"), None)
        if axiom is None or bound is None:
            return None
        attributes, tensors = quantified_names(axiom)
        values = bound.children()
        named = [self._vocabulary.constants.get(_symbol(value)) for value in values[: len(attributes)]]
        terms = [self._term(value) for value in values[len(attributes) :]]
        if any(value is None for value in (*named, *terms)):
            return None
        return Step(
            axiom.name,
            tuple(zip(tensors, cast("list[Term]", terms), strict=True)),
            tuple(zip(attributes, cast("list[AttributeTerm]", named), strict=True)),
        )

    def _term(self, expression: Expression) -> Term | None:
        key = expression.get_id()
        if key not in self._terms:
            self._terms[key] = self._read(expression)
        return self._terms[key]

    def _read(self, expression: Expression) -> Term | None:
        symbol = _symbol(expression)
        if symbol in self._vocabulary.tensors:
            return Variable(self._vocabulary.tensors[symbol])
        function = self._vocabulary.functions.get(symbol)
        if function is None:
            return None
        arguments = expression.children()
        count = len(function.attributes)
        values = [self._vocabulary.constants.get(_symbol(v)) for v in arguments[:count]]
        inputs = [self._term(child) for child in arguments[count:]]
        if any(value is None for value in (*values, *inputs)):
            return None
        named = dict(zip(function.attributes, cast("list[AttributeTerm]", values), strict=True))
        try:
            return application(function.operator, named, *cast("list[Term]", inputs))
        except IllTypedError:
            return None


def _symbol(expression: Expression) -> str:
    return f"|{expression.decl().name()}|"


__all__ = ["Answer", "Limits", "Step", "Strategy", "ask"]
