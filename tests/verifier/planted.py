"""Wrong rules planted on purpose: proved rules changed as people and programs get them wrong.

A change that leaves a rule true is no planted rule: each comes with an instance on which brute force
(``tests.verifier.brute``), which shares no code with the verifier, has seen the sides differ. A change that
brute force does not see through is harmless so far; if the verifier accepts it, a longer search must agree.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import islice

from superopt.axioms import load_axioms
from superopt.equations import canonical, format_equation, parse_equation
from superopt.errors import IllTypedError
from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Direction,
    Equation,
    Term,
    Variable,
    attribute_variables,
    variables,
)
from superopt.ops.terms import application
from superopt.rewriting.conditions import names_in
from tests.verifier.brute import SIZES, WIDER, Found, search
from tests.verifier.brute.meaning import SHAPES
from tests.verifier.changes import KINDS, OTHER_VALUES, SQUARE
from tests.verifier.rules import RIGHT

LEAVES, NODES = 60, 6000
PATIENCE = 3000


@dataclass(frozen=True)
class Changed:
    """A proved rule and what became of it; ``found`` is where brute force has seen it fail."""

    kind: str
    base: Equation
    equation: Equation
    found: Found | None

    def __str__(self) -> str:
        text = format_equation(self.equation)
        return text if self.found is None else f"{text}  # {self.found.instance}: {self.found.difference}"


def planted(kind: str, count: int, seed: int = 0) -> list[Changed]:
    """Different wrong rules of one kind: ``count`` of them, or fewer when that many are not found."""
    return list(islice((each for each in changed_rules(kind, seed) if each.found), count))


def changed_rules(kind: str, seed: int = 0) -> Iterator[Changed]:
    """Different changes of one kind, until many tries in a row bring nothing new."""
    generator = random.Random(f"{kind} {seed}")
    seen: set[str] = set()
    vain = 0
    while vain < PATIENCE:
        vain += 1
        base, mutant = _changed(kind, generator)
        text = "" if mutant is None else format_equation(canonical(mutant))
        if mutant is None or text in seen or (kind == SQUARE and not _typed_when_square(mutant)):
            continue
        seen.add(text)
        vain = 0
        yield Changed(kind, base, mutant, counterexample(mutant, generator.randrange(2**32)))


def counterexample(equation: Equation, seed: int, effort: int = 1) -> Found | None:
    """Where brute force sees the sides differ: in small shapes, then in a sample of larger ones."""
    for sizes in (SIZES, WIDER):
        result = search(equation, leaves=effort * LEAVES, nodes=effort * NODES, sizes=sizes, seed=seed)
        if result.found:
            return result.found
    return None


@cache
def proved_rules() -> tuple[Equation, ...]:
    """The shipped library, right rules of these tests, axioms with conditions; of those, what brute
    force has a meaning for."""
    lines = (files("superopt.substitution_db") / "library.jsonl").read_text(encoding="utf-8").splitlines()
    shipped = [parse_equation(json.loads(line)["equation"]) for line in lines]
    conditional = [axiom for axiom in load_axioms().equations if axiom.conditions]
    known = (*shipped, *map(parse_equation, RIGHT), *conditional)
    return tuple(rule for rule in known if all(each.operator in SHAPES for each in rule.applications))


@cache
def bases_of(kind: str) -> tuple[Equation, ...]:
    """The proved rules to which a change of that kind can apply, found by trying."""
    generator = random.Random(kind)
    return tuple(
        rule
        for rule in proved_rules()
        if any(_try(kind, side, generator) for side in (rule, rule.reversed()) for _ in range(6))
    )


def _try(kind: str, rule: Equation, generator: random.Random) -> Equation | None:
    try:
        return KINDS[kind](rule, generator)
    except IllTypedError:
        return None


def _changed(kind: str, generator: random.Random) -> tuple[Equation, Equation | None]:
    """A proved rule and one change of that kind to it."""
    base = _varied(generator.choice(bases_of(kind)), generator)
    mutant = _try(kind, base, generator)
    return base, mutant if mutant is not None and _is_usable(base, mutant) else None


def _is_usable(base: Equation, mutant: Equation) -> bool:
    """Whether the mutant is a rule at all, and another one."""
    if mutant == base or mutant.left == mutant.right:
        return False
    source = {*variables(*mutant.left), *attribute_variables(*mutant.left)}
    target = {*variables(*mutant.right), *attribute_variables(*mutant.right)}
    named = frozenset[str]().union(*(names_in(condition) for condition in mutant.conditions))
    return target <= source and named <= source


def _typed_when_square(equation: Equation) -> bool:
    """Whether both sides have the same type when every dimension is 2."""
    return search(equation, leaves=1, nodes=NODES, sizes=(2,)).compared > 0


def _varied(rule: Equation, generator: random.Random) -> Equation:
    """The rule in one of its directions, sometimes with a value for an attribute, sometimes in a context."""
    if rule.direction is not Direction.FORWARD and generator.random() < 0.5:
        rule = rule.reversed()
    if generator.random() < 0.3:
        rule = _specialised(rule, generator)
    if generator.random() < 0.3:
        rule = _in_context(rule, generator)
    return replace(rule, direction=Direction.FORWARD, name="")


def _specialised(rule: Equation, generator: random.Random) -> Equation:
    named = frozenset[str]().union(*(names_in(condition) for condition in rule.conditions))
    places = [
        (value, key)
        for term in rule.applications
        for key, value in term.attributes
        if isinstance(value, AttributeVariable) and key in OTHER_VALUES and value.name not in named
    ]
    if not places:
        return rule
    variable, key = generator.choice(places)
    chosen = generator.choice(OTHER_VALUES[key])

    def special(term: Term) -> Term:
        if isinstance(term, Variable):
            return term
        values = {name: chosen if value == variable else value for name, value in term.attributes}
        return application(term.operator, values, *map(special, term.inputs))

    try:
        return replace(rule, left=tuple(map(special, rule.left)), right=tuple(map(special, rule.right)))
    except IllTypedError:
        return rule


def _in_context(rule: Equation, generator: random.Random) -> Equation:
    used = rule.variables
    other = Variable(next(name for name in ("t", "r", "q") if name not in used))
    contexts = (
        Application("relu", (), (other,)),
        Application("scale", (), (other, Variable(f"{other.name}1"))),
        Application("add", (), (other, Variable(f"{other.name}1"))),
        Application("mul", (), (Variable(f"{other.name}1"), other)),
        Application("concat", (("axis", 0),), (other, Variable(f"{other.name}1"))),
    )
    around = generator.choice(contexts)

    def inside(term: Term) -> Term:
        return replace(around, inputs=tuple(term if child == other else child for child in around.inputs))

    return replace(rule, left=tuple(map(inside, rule.left)), right=tuple(map(inside, rule.right)))
