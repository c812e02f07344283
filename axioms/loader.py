"""Loader of ``*.axioms`` files: unique names, a reason for each axiom, content hashes.

The comment directly above an axiom is its reason, and that of the axioms directly below, up to a blank line
or another comment. A reason may start with marks: ``# ring: ...`` for axioms that hold in every commutative
ring, including wrapping integers; ``# lemma: ...`` for axioms that follow from others and are kept to speed
up proofs; ``# uncut: ...`` for axioms that provers get only if no tensor is split into halves;
``# late: ...`` for axioms that they get only if there is no proof without them. Marks can be combined:
``# ring, lemma: ...``.

Adjoint statements (``superopt.equations.adjoints``) are kept apart from the equations, because provers must
not use them; they have names, families and reasons like axioms.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import groupby

from superopt.axioms.schemas import instances
from superopt.equations import Adjoint, format_adjoint, format_equation, parse_statement
from superopt.equations.entries import Entry, entries
from superopt.errors import InvalidEquationError
from superopt.ir.terms import Application, Equation
from superopt.ops.base import OPERATORS
from superopt.ops.traits import HALVES

RING, LEMMA, UNCUT, LATE = "ring", "lemma", "uncut", "late"
_MARK = f"(?:{RING}|{LEMMA}|{UNCUT}|{LATE})"
_MARKED = re.compile(rf"\A({_MARK}(?:, *{_MARK})*): *")


@dataclass(frozen=True, repr=False)
class AxiomSet:
    """Named equations and adjoint statements; ``families`` maps names to files, ``reasons`` maps names to
    reasons.

    Axioms named in ``ring`` hold in every commutative ring; those in ``lemmas`` follow from others.
    ``schemas`` maps instances to the heads of their schemas. On terms without shapes, axioms in ``uncut``
    contradict those about halves of joined tensors, so provers never get both. They get those in ``late``
    only if there is no proof without them.
    """

    equations: tuple[Equation, ...]
    families: Mapping[str, str]
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    ring: frozenset[str] = frozenset()
    lemmas: frozenset[str] = frozenset()
    schemas: Mapping[str, str] = field(default_factory=dict[str, str])
    uncut: frozenset[str] = frozenset()
    adjoints: tuple[Adjoint, ...] = ()
    late: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"AxiomSet({len(self.equations)} equations, {len(self.adjoints)} adjoint statements)"

    @functools.cached_property
    def usual(self) -> tuple[Equation, ...]:
        """The axioms without those in ``uncut``, consistent on terms without shapes."""
        return tuple(axiom for axiom in self.equations if axiom.name not in self.uncut)

    def early(self, axioms: Iterable[Equation]) -> tuple[Equation, ...]:
        """Those of some axioms that are not in ``late``."""
        return tuple(axiom for axiom in axioms if axiom.name not in self.late)

    @functools.cached_property
    def of_whole_tensors(self) -> tuple[Equation, ...]:
        """The axioms that are not about halves, including ``uncut``; also consistent."""
        return tuple(axiom for axiom in self.equations if not cuts(axiom))

    @functools.cached_property
    def of_rejoined_halves(self) -> tuple[Equation, ...]:
        """The axioms, including ``uncut``, without those that say what the halves of joined tensors are; also
        consistent, since all tensors may then be cut at one place."""
        return tuple(axiom for axiom in self.equations if not _cuts_joined(axiom))

    def beside(self, axiom: Equation) -> tuple[Equation, ...]:
        """The consistent subset that contains the given axiom."""
        return self.of_whole_tensors if axiom.name in self.uncut else self.usual

    @functools.cached_property
    def by_name(self) -> Mapping[str, Equation]:
        """Equations by name."""
        return {equation.name: equation for equation in self.equations}

    @functools.cached_property
    def adjoints_by_name(self) -> Mapping[str, Adjoint]:
        """Adjoint statements by name."""
        return {adjoint.name: adjoint for adjoint in self.adjoints}

    @functools.cached_property
    def hash(self) -> str:
        """Content hash of all axioms, 16 hex digits; adjoint statements are not covered."""
        return self.hash_of(self.by_name)

    def hash_of(self, names: Iterable[str]) -> str:
        """Content hash of the named axioms, 16 hex digits; also changes if one is missing."""
        entries = self._entries
        return _hash(entries.get(name) or f"{name} is missing" for name in sorted(set(names)))

    def hash_of_adjoints(self, names: Iterable[str]) -> str:
        """Content hash of the named adjoint statements, as ``hash_of``."""
        return _hash(self._entry_of_adjoint(name) for name in sorted(set(names)))

    def with_equations(self, *equations: Equation, family: str = "added") -> AxiomSet:
        """The set with additional equations without reasons and marks."""
        families = dict(self.families) | {equation.name: family for equation in equations}
        return replace(self, equations=(*self.equations, *equations), families=families)

    def without_reason(self) -> tuple[str, ...]:
        """The names of the axioms and adjoint statements without a reason."""
        named = (*self.equations, *self.adjoints)
        return tuple(statement.name for statement in named if not self.reasons.get(statement.name))

    @functools.cached_property
    def _entries(self) -> Mapping[str, str]:
        return {name: f"{name}: {format_equation(axiom)}" for name, axiom in self.by_name.items()}

    def _entry_of_adjoint(self, name: str) -> str:
        adjoint = self.adjoints_by_name.get(name)
        return f"{name}: {format_adjoint(adjoint)}" if adjoint else f"{name} is missing"


def _hash(entries: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(entries).encode()).hexdigest()[:16]


def cuts(equation: Equation) -> bool:
    """Whether the equation contains a half of a split tensor."""
    terms = equation.applications
    return any(term.operator in HALVES for term in terms)


def _cuts_joined(equation: Equation) -> bool:
    """Whether the equation contains a half of tensors that it joins."""
    halves = (term for term in equation.applications if term.operator in HALVES)
    inputs = (child for half in halves for child in half.inputs if isinstance(child, Application))
    return any(OPERATORS[child.operator].joins for child in inputs)


def holds_for_integers(axioms_used: Iterable[str], axioms: AxiomSet) -> bool:
    """Whether a rule proved from these axioms holds for integer tensors, including overflow.

    Ring axioms hold modulo a power of two as for real numbers; those of order, division, roots and
    exponentials do not. Unknown axioms are assumed not to be ring axioms.
    """
    return axioms.ring.issuperset(axioms_used)


@functools.cache
def load_axioms() -> AxiomSet:
    """The axioms of this package.

    Raises InvalidEquationError for a syntax error or an axiom without a reason.
    """
    return require_reasons(axioms_from_text(texts_of_families()))


def texts_of_families() -> dict[str, str]:
    """The texts of this package's axiom files, by family."""
    files = (
        entry for entry in resources.files("superopt.axioms").iterdir() if entry.name.endswith(".axioms")
    )
    return {
        entry.name.removesuffix(".axioms"): entry.read_text("utf-8")
        for entry in sorted(files, key=lambda entry: entry.name)
    }


def axioms_from_text(texts: Mapping[str, str]) -> AxiomSet:
    """Parses axioms from the text of each family; reasons are optional.

    Raises InvalidEquationError, also for a missing or duplicate name.
    """
    statements: list[Equation | Adjoint] = []
    families: dict[str, str] = {}
    comments: dict[str, str] = {}
    schemas: dict[str, str] = {}
    for family, text in texts.items():
        try:
            for statement, entry in _statements(text):
                if not statement.name or statement.name in families:
                    what = _text(statement)
                    raise InvalidEquationError(f"expected a new name, got {statement.name!r}, for {what}")
                families[statement.name] = family
                comments[statement.name] = entry.comment
                if entry.head:
                    schemas[statement.name] = entry.head
                statements.append(statement)
        except InvalidEquationError as error:
            raise InvalidEquationError(f"{family}.axioms: {error}") from None
    return AxiomSet(
        tuple(statement for statement in statements if isinstance(statement, Equation)),
        families,
        {name: said for name, comment in comments.items() if (said := _MARKED.sub("", comment))},
        frozenset(name for name, comment in comments.items() if RING in _marks(comment)),
        frozenset(name for name, comment in comments.items() if LEMMA in _marks(comment)),
        schemas,
        frozenset(name for name, comment in comments.items() if UNCUT in _marks(comment)),
        tuple(statement for statement in statements if isinstance(statement, Adjoint)),
        frozenset(name for name, comment in comments.items() if LATE in _marks(comment)),
    )


def _text(statement: Equation | Adjoint) -> str:
    return format_adjoint(statement) if isinstance(statement, Adjoint) else format_equation(statement)


def _statements(text: str) -> Iterator[tuple[Equation | Adjoint, Entry]]:
    """The statements of a file with their entries; schema instances are grouped by operator."""
    for _, block in groupby(entries(text), lambda entry: (entry.head, entry.comment)):
        found = [list(instances(entry)) for entry in block]
        rows = zip(*found, strict=True) if found[0][0].head else found
        for row in rows:
            yield from ((parse_statement(entry.text, first_line=entry.line), entry) for entry in row)


def require_reasons(axioms: AxiomSet) -> AxiomSet:
    """Returns the axioms. Raises InvalidEquationError for one without a reason."""
    for name in axioms.without_reason():
        raise InvalidEquationError(
            f"{axioms.families[name]}.axioms: expected a comment above {name} with the reason why it holds"
        )
    return axioms


def _marks(comment: str) -> frozenset[str]:
    marked = _MARKED.match(comment)
    return frozenset(re.split(", *", marked.group(1))) if marked else frozenset()
