"""Types found at random under which both sides of an equation are well-typed: proposed, then typed anew.

Ranks go up to 9. Each attempt takes one rank, one pool of sizes and one value for each attribute variable;
where an axis that is counted from the front meets one that is counted from the back, that rank comes first.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt, lcm, prod

from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Equation,
    Term,
    Variable,
    applications,
    variables,
)
from tests.verifier.adversary.hints import (
    most_rank,
    only_ranks,
    open_in,
    pinned,
    ranks_to_try,
    variables_in,
)
from tests.verifier.adversary.meaning import DIVIDING
from tests.verifier.adversary.wanted import Place, Wish, operand
from tests.verifier.brute.basics import Attributes, IllTyped, Shape
from tests.verifier.brute.conditions import declared_sizes_agree, holds
from tests.verifier.brute.meaning import IMPLICIT, SHAPES

MOST_ELEMENTS = 6000
LATE = ("shape", "perm")
"""Attribute variables of which the value is chosen when the operand is known."""

MOVING = ("transpose", "reshape")
"""Behind them channels lie along other axes."""

SIZES: Sequence[Sequence[int]] = (
    (1, 2, 3),
    (2, 3),
    (2, 3, 5, 7),
    (1, 1, 2),
    (2,),
    (3,),
    (4, 6, 2),
    (9, 15, 3, 5),
    (1, 2, 4, 6, 8),
)
VALUES: Mapping[str, Sequence[object]] = {
    "stride": ((1, 1), (2, 2), (1, 2), (3, 3), (2, 1), (5, 5)),
    "dilation": ((1, 1), (2, 2), (1, 2), (3, 3)),
    "padding": ("valid", "same", "same_upper", "same_lower", (0, 1, 1, 0), (1, 1, 1, 1), (2, 0, 0, 1)),
    "kernel": ((1, 1), (3, 3), (2, 2), (1, 3), (2, 1), (4, 4), (5, 5)),
    "activation": ("none", "relu", "sigmoid", "tanh"),
    "approximate": ("none", "tanh"),
    "includes_padding": (0, 1),
    "degree": (2, 3, 4, 6),
    "exponent": (2, Fraction(1, 2), -1, 3, Fraction(-1, 2), Fraction(3, 2), Fraction(1, 3)),
    "size": (1, 2, 3, 5),
    "epsilon": (Fraction(1, 100000), 1, Fraction(1, 10)),
}
NUMBERS = (1, 2, 0, -1, Fraction(1, 2), -2, 3)


@dataclass(frozen=True)
class Typed:
    """Shapes of all subterms, with all attributes of all operators."""

    shapes: Mapping[Term, Shape]
    attributes: Mapping[Term, Attributes]
    values: Mapping[str, object]
    number: int = 0
    mismatch: str = ""
    """Where the sides differ in type although nothing was left open that could make them agree."""

    def __str__(self) -> str:
        named = sorted(
            (term.name, shape) for term, shape in self.shapes.items() if isinstance(term, Variable)
        )
        parts = [f"{name}: f32[{', '.join(map(str, shape))}]" for name, shape in named]
        return ", ".join([*parts, *(f"{name}={value}" for name, value in sorted(self.values.items()))])


class Typings:
    """Proposals for one equation, drawn from one generator of random numbers."""

    def __init__(self, equation: Equation, chooser: random.Random) -> None:
        self._equation = equation
        self._random = chooser
        self._sides = equation.terms
        self._kinds = {
            value.name: key
            for term in applications(*self._sides)
            for key, value in term.attributes
            if isinstance(value, AttributeVariable)
        }
        self._axes = sorted(
            {
                value
                for term in applications(*self._sides)
                for key, value in term.attributes
                if key == "axis" and isinstance(value, int)
            }
        )
        self._ranks = ranks_to_try(equation, self._axes)
        self._divides = any(term.operator in DIVIDING for term in applications(*self._sides))
        self._tries = 0

    def next(self) -> Typed | None:
        """A typing under which the conditions hold, or None if this attempt led to none: a value of the wrong
        kind, for a variable that stands for two kinds of attributes, fits nowhere."""
        self._tries += 1
        rank = self._rank()
        values = {
            name: self._value(name, rank) for name in sorted(self._kinds) if self._kinds[name] not in LATE
        }
        pool = self._pool(values)
        attempt = _Attempt(self._equation, self._random, rank, pool, values)
        try:
            return replace(attempt.typed(), number=self._tries)
        except (IllTyped, TypeError, ValueError, IndexError):
            return None

    def _rank(self) -> int:
        if self._tries <= 2 * len(self._ranks):
            return self._ranks[(self._tries - 1) // 2]
        if self._random.random() < 0.5:
            return self._random.choice(self._ranks)
        return self._random.choice(
            (1, 2, 3) if self._divides else (0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9)
        )

    def _pool(self, values: Mapping[str, object]) -> Sequence[int]:
        if not self._divides:
            return self._random.choice(SIZES)
        degrees = [
            values[value.name] if isinstance(value, AttributeVariable) else value
            for term in applications(*self._sides)
            for key, value in term.attributes
            if key == "degree"
        ]
        numbers = [degree for degree in degrees if isinstance(degree, int) and degree > 0]
        least, most = lcm(*numbers), prod(sorted(set(numbers))[:3])
        pools = (
            (least,),
            (least, 2 * least),
            (most,),
            (least, 1),
            (least * least,),
            tuple({*numbers, least}),
        )
        return self._random.choice(pools)

    def _value(self, name: str, rank: int) -> object:
        kind = self._kinds[name]
        if kind != "axis":
            return self._random.choice(VALUES.get(kind, NUMBERS))
        places = max(rank, 1)
        if self._axes and self._random.random() < 0.4:
            axis = self._random.choice(self._axes)
            if -places <= axis < places and self._random.random() < 0.7:
                return axis - places if axis >= 0 else axis + places
            return axis
        return self._random.randrange(-places, places)


class _Attempt:
    def __init__(
        self,
        equation: Equation,
        chooser: random.Random,
        rank: int,
        pool: Sequence[int],
        values: dict[str, object],
    ) -> None:
        self._equation = equation
        self._random = chooser
        self._rank = rank
        self._pool = pool if rank < 6 else (min((s for s in pool if s > 1), default=2), 1, 2)
        self._values = values
        self._declared = dict(equation.types)
        self._named: dict[str, int] = {}
        self._shapes: dict[Term, Shape] = {}
        self._attributes: dict[Term, Attributes] = {}
        self._cuts: dict[tuple[Term, int], int] = {}
        ranks, self._sizes = pinned(equation.conditions)
        self._ranks = {**only_ranks(equation), **ranks}
        self._is_free, self._free = False, set[str]()
        """Whether a size was chosen that nothing in the equation determines alone; of which attributes."""
        self._grouped = chooser.choice((0.0, 0.7, 1.0))

    def typed(self) -> Typed:
        left, right = self._equation.left, self._equation.right
        mismatch = ""
        for one, other in zip(left, right, strict=True):
            shape = self._fit(one, None)
            also = self._fit(other, shape)
            if also != shape:
                mismatch = f"shapes {shape} and {also}"
                if len(shape) == len(also) == 4 and self._of_channels(shape, also):
                    self._is_free = False
        if mismatch and self._is_free:
            raise IllTyped
        named = {n: self._shapes[Variable(n)] for n in variables(*left, *right)}
        if not declared_sizes_agree({n: t for n, t in self._declared.items() if n in named}, named):
            raise IllTyped
        for condition in self._equation.conditions:
            try:
                if not holds(condition, named, self._values):
                    raise IllTyped
            except (KeyError, IndexError, TypeError) as error:
                raise IllTyped from error
        most = most_rank(self._equation)
        for shape in self._shapes.values():
            if min(shape, default=1) < 1 or prod(shape) > MOST_ELEMENTS or len(shape) > most:
                raise IllTyped
        return Typed(self._shapes, self._attributes, dict(self._values), mismatch=mismatch)

    def _of_channels(self, shape: Shape, also: Shape) -> bool:
        """Whether all that was free are channels of kernels, which are not where the shapes differ."""
        if any(term.operator in MOVING for term in self._equation.applications):
            return False
        return self._free <= {"channels"} and (shape[0], *shape[2:]) != (also[0], *also[2:])

    def _fit(self, term: Term, wish: Wish) -> Shape:
        known = self._shapes.get(term)
        if known is not None:
            return known
        shape = self._fresh(term, wish) if isinstance(term, Variable) else self._applied(term, wish)
        self._shapes[term] = shape
        return shape

    def _fresh(self, variable: Variable, wish: Wish) -> Shape:
        declared = self._declared.get(variable.name)
        if declared is not None:
            if wish is None or len(wish) != len(declared.shape):
                wish = (None,) * len(declared.shape)
            sizes = zip(declared.shape, wish, strict=True)
            return tuple(
                self._named_size(size, own) if isinstance(size, str) else size for size, own in sizes
            )
        rank = self._ranks.get(variable.name, self._rank)
        chosen = (None,) * rank if wish is None else wish
        if variable.name in self._ranks and len(chosen) != rank:
            chosen = (*(None,) * rank, *chosen)[-rank:] if rank else ()
        pinned = self._sizes.get(variable.name, {})
        found = [self._random.choice(self._pool) if size is None else size for size in chosen]
        for axis, size in pinned.items():
            if -len(found) <= axis < len(found) and chosen[axis] is None:
                found[axis] = size
        return tuple(found)

    def _named_size(self, name: str, wish: int | None) -> int:
        if name not in self._named:
            self._named[name] = wish or self._random.choice(self._pool)
        return self._named[name]

    def _applied(self, term: Application, wish: Wish) -> Shape:
        attributes: dict[str, object] = {
            key: self._values.get(value.name) if isinstance(value, AttributeVariable) else value
            for key, value in term.attributes
        }
        if self._is_settled(term):
            wish = None
        known: list[Shape | None] = [self._shapes.get(child) for child in term.inputs]
        waiting = [n for n, shape in enumerate(known) if shape is None]
        waiting.sort(key=lambda n: (not self._is_ready(term.inputs[n]), isinstance(term.inputs[n], Variable)))
        for index in waiting:
            place = Place(attributes, index, known, wish, self._rank, self._grouped, self._random)
            known[index] = self._fit(term.inputs[index], operand(term.operator, place))
        inputs = [shape for shape in known if shape is not None]
        self._fill(term, attributes, inputs, wish)
        self._attributes[term] = attributes
        if term.operator in DIVIDING:
            if term.operator not in ("replicate", "reduce"):
                axis = attributes["axis"]
                if not isinstance(axis, int) or not -len(inputs[0]) <= axis < len(inputs[0]):
                    raise IllTyped
            return inputs[0]
        try:
            return SHAPES[term.operator](attributes, *inputs)
        except (IndexError, ValueError, KeyError, TypeError) as error:
            raise IllTyped from error

    def _is_settled(self, term: Application) -> bool:
        """Whether shapes that are known alone say what its shape is: a wish could only be in vain."""
        needed = open_in(term)
        return needed is not None and needed <= self._values.keys() and self._has_shapes(term)

    def _has_shapes(self, term: Term) -> bool:
        return all(each in self._shapes for each in variables_in(term))

    def _is_ready(self, term: Term) -> bool:
        """Whether the shapes of its variables are known or declared."""
        return all(each in self._shapes or each.name in self._declared for each in variables_in(term))

    def _fill(
        self, term: Application, attributes: dict[str, object], inputs: list[Shape], wish: Wish
    ) -> None:
        """Values for what the types around the operator determine."""
        for key, value in term.attributes:
            if isinstance(value, AttributeVariable) and attributes[key] is None:
                self._is_free = True
                self._free.add(key)
                attributes[key] = self._values[value.name] = self._late(key, inputs[0], wish)
        name = IMPLICIT.get(term.operator)
        if name is None or name in attributes:
            return
        if term.operator in ("split0", "split1"):
            attributes[name] = self._cut(term, attributes["axis"], inputs[0], wish)
            return
        self._is_free = True
        self._free.add(name)
        if name == "shape":
            attributes[name] = self._around(inputs[0] if inputs else (), wish)
        else:
            attributes[name] = (wish or (None,))[0] or self._random.choice(self._pool)

    def _late(self, key: str, shape: Shape, wish: Wish) -> object:
        if key == "perm":
            axes = list(range(len(shape)))
            self._random.shuffle(axes)
            return tuple(axes)
        if wish is not None and None not in wish:
            return wish
        flat, parts = prod(shape), list[int]()
        while flat > 1 and len(parts) < 5:
            part = self._random.choice(_divisors(flat))
            parts.append(part)
            flat //= part
        return (*parts, flat)

    def _cut(self, term: Application, axis: object, whole: Shape, wish: Wish) -> int:
        """Where other halves of the tensor are cut, or the operands of a concat meet, or anywhere."""
        (inner,) = term.inputs
        if not isinstance(axis, int) or not -len(whole) <= axis < len(whole):
            raise IllTyped
        place = (inner, axis % len(whole))
        if place not in self._cuts:
            self._cuts[place] = self._new_cut(term, inner, place[1], whole, wish)
        return self._cuts[place]

    def _new_cut(self, term: Application, inner: Term, axis: int, whole: Shape, wish: Wish) -> int:
        if isinstance(inner, Application) and inner.operator == "concat":
            joined = self._attributes[inner]["axis"]
            if joined % len(whole) == axis:
                return self._shapes[inner.inputs[0]][axis]
        self._is_free = True
        self._free.add("size")
        size = None if wish is None or len(wish) <= axis else wish[axis]
        if size is not None:
            return size if term.operator == "split0" else whole[axis] - size
        if whole[axis] < 2:
            raise IllTyped
        return self._random.randrange(1, whole[axis])

    def _around(self, inner: Shape, wish: Wish) -> Shape:
        if wish is None:
            more = [self._random.choice(self._pool) for _ in range(self._random.choice((0, 1, self._rank)))]
            own = [self._random.choice(self._pool) if size == 1 else size for size in inner]
            return (*more, *own)
        if len(inner) > len(wish):
            raise IllTyped
        padded = (*(1,) * (len(wish) - len(inner)), *inner)
        return tuple(
            (own if own != 1 else self._random.choice(self._pool)) if size is None else size
            for own, size in zip(padded, wish, strict=True)
        )


def _divisors(number: int) -> list[int]:
    """The divisors of a number from 1 up; quick for the elements of a large tensor, too."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return [*small, *(number // n for n in reversed(small) if n * n != number)]
