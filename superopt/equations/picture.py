"""Draw equations as text: both sides as trees, shared subterms drawn once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from superopt.equations.abbreviation import abbreviated
from superopt.equations.printer import format_attribute
from superopt.ir.terms import Application, Equation, Term, Variable, subterms

WIDTH = 100
"""Maximum columns of two trees side by side."""

_GAP = 4


def picture(equation: Equation) -> str:
    """The source and the target as trees, an operator above its inputs, side by side where there is room. A
    shared subterm is numbered where it is drawn, ``(1) relu``, and referred to by its number elsewhere; both
    sides share the numbering."""
    numbers = _numbers(equation.terms)
    drawn: set[Term] = set()
    left, right = (_side(side, numbers, drawn) for side in (equation.left, equation.right))
    width = max(map(len, left))
    relation = f"  {equation.direction}  "
    if width + len(relation) + _GAP + max(map(len, right)) > WIDTH:
        return "\n".join((*left, "", f"{equation.direction}", "", *right))
    middles = [relation if row == 0 else "" for row in range(max(len(left), len(right)))]
    rows = zip_longest(left, middles, right, fillvalue="")
    return "\n".join(f"{a:<{width}}{middle:<{len(relation)}}{b}".rstrip() for a, middle, b in rows)


def _side(side: Sequence[Term], numbers: dict[Term, int], drawn: set[Term]) -> list[str]:
    """One tree for each output, one below the other."""
    return [line for term in side for line in _tree(term, numbers, drawn)]


def _tree(term: Term, numbers: dict[Term, int], drawn: set[Term]) -> Iterator[str]:
    if isinstance(term, Variable):
        yield term.name
        return
    number = numbers.get(term)
    if term in drawn and number is not None:
        yield f"({number})"
        return
    drawn.add(term)
    label = _label(term)
    yield label if number is None else f"({number}) {label}"
    for index, child in enumerate(term.inputs):
        last = index == len(term.inputs) - 1
        first_line, *further = _tree(child, numbers, drawn)
        yield f"{'└─' if last else '├─'} {first_line}"
        yield from (f"{'   ' if last else '│  '}{line}" for line in further)


def _label(term: Application) -> str:
    attributes = abbreviated(", ".join(format_attribute(name, value) for name, value in term.attributes))
    return f"{term.operator}[{attributes}]" if attributes else term.operator


def _numbers(terms: Sequence[Term]) -> dict[Term, int]:
    """Numbers of the applications that are used more than once, by others or as outputs."""
    every = list(subterms(*terms))
    uses = Counter(child for term in every if isinstance(term, Application) for child in term.inputs)
    uses.update(terms)
    repeated = (term for term in every if isinstance(term, Application) and term.inputs and uses[term] > 1)
    return {term: number for number, term in enumerate(repeated, 1)}


__all__ = ["picture"]
