"""From all equations found to the candidates worth proving: renamings, instances and the derivable go.

Equations are taken smallest first, so that larger ones are derived from smaller ones. What is dropped is
counted by the reason; every dropped equation but the false ones follows from what is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from generator.derivation import Outputs, Theory, tree_size
from generator.generalisation import Generaliser, explicit, on_terms
from generator.pairing import Sides
from generator.sampling import Sampler, Shapes
from superopt.equations import canonical, format_equation, rule_id
from superopt.ir.terms import Direction, Equation, Term, Variable, operator_count, subterms, variables
from superopt.rewriting import why_unusable

SMALL = 2
"""An equation with a side of so few operators is kept unless one step derives it or a side can get smaller.

A search gets there at once, and does not have to pass through graphs that cost more than both ends.
"""


@dataclass(frozen=True)
class Candidate:
    """An equation worth proving; ``generalizations`` ends with it, most general first; ``shapes`` type it."""

    equation: Equation
    generalizations: tuple[Equation, ...]
    provenance: str
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def text(self) -> str:
        """The most general form."""
        return format_equation(self.generalizations[0])


@dataclass(frozen=True, slots=True)
class _Found:
    equation: Equation
    shapes: Shapes
    order: tuple[int, int, int, str]


class Selection:
    """Takes equations smallest first and keeps those that the kept ones do not give."""

    def __init__(self, shapes: Shapes, provenance: str) -> None:
        self.dropped: Counter[str] = Counter()
        self.candidates: list[Candidate] = []
        self._shapes = shapes
        self._provenance = provenance
        self._sampler = Sampler()
        self._generaliser = Generaliser(self._sampler)
        self._theory = Theory()
        self._conditional = Theory()
        self._seen: set[str] = set()
        self._true: set[str] = set()
        self._ids: set[str] = set()

    def take(self, sides: Iterable[Sides]) -> int:
        """Goes through the equations of one kind; the number that were left after renaming."""
        distinct = self._distinct(sides)
        for found in distinct:
            self._consider(found)
        return len(distinct)

    def _distinct(self, sides: Iterable[Sides]) -> list[_Found]:
        found: list[_Found] = []
        for left, right in sides:
            oriented = self._oriented(left, right, self._shapes)
            if oriented is not None and oriented.order[-1] not in self._seen:
                self._seen.add(oriented.order[-1])
                found.append(oriented)
        return sorted(found, key=lambda f: f.order)

    def _oriented(self, left: Outputs, right: Outputs, shapes: Shapes) -> _Found | None:
        """The equation with its source on the left, variables renamed; None where it cannot be used."""
        forward, backward = _usable(left, right), len(left) == 1 and _usable(right, left)
        if not forward and not backward:
            self.dropped["unusable"] += 1
            return None
        if forward and backward:
            one, other = (self._named(left, right, shapes), self._named(right, left, shapes))
            chosen = min((one, other), key=lambda n: (-operator_count(*n[0].left), format_equation(n[0])))
            equation, named = replace(chosen[0], direction=Direction.BOTH), chosen[1]
        else:
            source, target = (left, right) if forward else (right, left)
            equation, named = self._named(source, target, shapes)
        sizes = tree_size(*equation.left), tree_size(*equation.right)
        return _Found(equation, named, (sum(sizes), max(sizes), -len(named), format_equation(equation)))

    def _named(self, left: Outputs, right: Outputs, shapes: Shapes) -> tuple[Equation, Shapes]:
        written = Equation(tuple(left), tuple(right), Direction.FORWARD)
        equation = canonical(written)
        old, new = variables(*left, *right), variables(*equation.left, *equation.right)
        return equation, {b: shapes[a] for a, b in zip(old, new, strict=True)}

    def _consider(self, found: _Found) -> None:
        equation, shapes = found.equation, found.shapes
        if self._is_instance(equation, shapes):
            self.dropped["common subterm"] += 1
            return
        if self._derivable_in_general(self._theory, equation, shapes):
            self._true.add(found.order[-1])
            self.dropped["derivable"] += 1
            return
        if not self._sampler.types_in_general(equation, shapes):
            self.dropped["ill-typed in general"] += 1
            return
        if self._sampler.equates_sizes(equation, shapes):
            self.dropped["only at equal sizes"] += 1
            return
        true = self._generaliser.true_form(equation, shapes)
        if true is None:
            self.dropped["false in general"] += 1
            return
        if true.conditions and self._derivable_in_general(self._conditional, equation, shapes):
            self.dropped["derivable under conditions"] += 1
            return
        for reason, wider in (
            ("common subterm", self._generaliser.without_common_subterms),
            ("fewer variables", self._generaliser.with_more_variables),
        ):
            general = wider(equation, shapes)
            if general is not None:
                self.dropped[reason] += 1
                self._consider_instead(*general)
                return
        if not true.conditions:
            self._true.add(found.order[-1])
        self._keep(true, shapes)

    def _is_instance(self, equation: Equation, shapes: Shapes) -> bool:
        """Whether it has a subterm on both sides without which it is known already."""
        for shorter, wider in self._generaliser.shorter_forms(equation, shapes):
            oriented = self._oriented(shorter.left, shorter.right, wider)
            if oriented is not None and oriented.order[-1] in self._true:
                return True
        return False

    def _consider_instead(self, equation: Equation, shapes: Shapes) -> None:
        oriented = self._oriented(equation.left, equation.right, shapes)
        if oriented is not None and oriented.order[-1] not in self._seen:
            self._seen.add(oriented.order[-1])
            self._consider(oriented)

    def _keep(self, equation: Equation, shapes: Shapes) -> None:
        forms = tuple(canonical(form) for form in self._generaliser.attribute_forms(equation, shapes))
        identity = rule_id(forms[0])
        if identity in self._ids:
            self.dropped["same when general"] += 1
            return
        self._ids.add(identity)
        general = _explicit(forms[0])
        both = equation.direction is Direction.BOTH
        self._conditional.add(general.left, general.right, backward=both)
        if not general.conditions:
            self._theory.add(general.left, general.right, backward=both)
        self.candidates.append(Candidate(equation, tuple(dict.fromkeys(forms)), self._provenance, shapes))

    def _derivable_in_general(self, theory: Theory, equation: Equation, shapes: Shapes) -> bool:
        """Whether it follows from what is kept, as written and with every attribute that may be open."""
        if not _derivable(theory, equation):
            return False
        if len(equation.left) > 1:
            return True
        forms = self._generaliser.open_forms(equation, shapes)
        return all(_derivable(theory, form) or not holds() for form, holds in forms)


def _derivable(theory: Theory, equation: Equation) -> bool:
    full = _explicit(equation)
    if len(full.left) > 1:
        return theory.derives_merge(full.left, full.right)
    left, right = next(iter(full.left)), next(iter(full.right))
    small = min(tree_size(left), tree_size(right)) <= SMALL
    derives = theory.derives
    if small and not theory.simplifies(left) and not theory.simplifies(right):
        derives = theory.gives_at_once
    return derives(left, right) and (equation.direction is not Direction.BOTH or derives(right, left))


def _explicit(equation: Equation) -> Equation:
    return on_terms(equation, [explicit(t) for t in equation.left], [explicit(t) for t in equation.right])


def _usable(source: Sequence[Term], target: Sequence[Term]) -> bool:
    """Whether source => target is a rule that does not just build upon what it matched."""
    if why_unusable(source, target) is not None:
        return False
    if len(source) > 1:
        return True
    return source[0] not in set(subterms(*target)) or isinstance(source[0], Variable)
