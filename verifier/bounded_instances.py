"""All well-typed instances of an equation with small sizes, drawn in random order and never twice.

A tree of decisions: the rank of a variable, the value of an attribute variable, one size. Terms are typed as
soon as their inputs are known, which decides sizes by unification; where unification would decide more than
is needed (groups of a convolution, axes of a broadcast, rounded divisions) the sizes are tried one by one.
A drawn leaf is taken out of the tree, so that a small tree is exhausted and a large one is sampled.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from superopt.errors import DimensionMismatchError, IllTypedError, RankMismatchError
from superopt.ir.dimensions import Dimension, as_symbol, symbol, symbols_of
from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Equation,
    Term,
    Variable,
    applications,
    variables,
)
from superopt.ir.types import ELEMENT_TYPES_BY_SHORT_NAME, ElementType, TensorType
from superopt.ops.base import OPERATORS
from superopt.ops.traits import GROUPED, traits
from superopt.rewriting.conditions import as_declared, holds
from superopt.rewriting.typing import FRESH, Typing, infer_terms
from superopt.verifier.attributes import plausible_values
from superopt.verifier.requirements import impose
from superopt.verifier.small_typings import typings_of

RANKS = (0, 1, 2, 3, 4)
MOST_DECISIONS = 30
"""How many open decisions are looked at for each instance asked for; most need ten, dead ends included."""


@dataclass(frozen=True)
class Sizes:
    """Sizes to try: images along rows and columns, kernels there, outputs of kernels, everything else."""

    plain: tuple[int, ...] = (1, 2, 3, 4)
    image: tuple[int, ...] = (1, 2, 3, 4, 5)
    kernel: tuple[int, ...] = (1, 2, 3)
    outputs: tuple[int, ...] = (1, 2, 3, 4, 6)


@dataclass(frozen=True)
class BoundedInstance:
    """Types of the variables, values of attribute variables, the typings for all that these leave open."""

    types: Mapping[str, TensorType]
    attributes: Mapping[str, object]
    typings: tuple[Typing, ...]


@dataclass(frozen=True)
class _State:
    """``typed`` counts the applications that have a type; ``known`` has the types of those that are settled.

    ``together`` says whether the outputs' types have been unified; None before that is decided.
    """

    types: Mapping[str, TensorType]
    attributes: Mapping[str, object]
    known: Mapping[Term, TensorType] = field(default_factory=dict[Term, TensorType])
    typed: int = 0
    together: bool | None = None

    def solved(self, assignment: Mapping[str, Dimension]) -> _State:
        if not assignment:
            return self
        return replace(
            self,
            types={name: type_.substitute(assignment) for name, type_ in self.types.items()},
            known={term: type_.substitute(assignment) for term, type_ in self.known.items()},
        )


@dataclass(frozen=True)
class _Skeleton:
    """A term in which ``settled`` subterms, whose types say all about them, are variables of these names."""

    term: Term
    settled: tuple[tuple[str, Term], ...]

    def typed(self, state: _State) -> Typing:
        types = {**state.types, **{name: state.known[term] for name, term in self.settled}}
        return infer_terms((self.term,), types, state.attributes)


@dataclass
class _Node:
    """A state, and what was decided since: worked out when the node is met."""

    state: _State
    decided: Mapping[str, Dimension] = field(default_factory=dict[str, Dimension])
    children: list[_Node] | None = None

    def current(self) -> _State:
        self.state, self.decided = self.state.solved(self.decided), {}
        return self.state


class BoundedInstances:
    """Draws well-typed instances at which the equation's own conditions hold; the same for the same seed."""

    def __init__(self, equation: Equation, sizes: Sizes, seed: int) -> None:
        self._equation = equation
        self._sizes = sizes
        self._random = random.Random(seed)
        self._terms = (*equation.left, *equation.right)
        self._pairs = list(zip(equation.left, equation.right, strict=True))
        self._applications = tuple(applications(*self._terms))
        self._names = variables(*self._terms)
        windowed = [
            term for term in self._applications if term.operator in GROUPED or traits(term.operator).windowed
        ]
        self._kernels = frozenset(
            name for term in windowed for child in term.inputs[1:] for name in variables(child)
        )
        self._images = frozenset(self._names) - self._kernels if windowed else frozenset[str]()
        self._root: _Node | None = _Node(_State(self._declared(), {}))
        self._seen: set[object] = set()
        self._decisions = 0
        self._variables_of = {term: frozenset(variables(term)) for term in self._applications}
        self._skeletons = {term: _skeleton(term) for term in self._applications}

    def draw(self, count: int) -> Iterator[BoundedInstance]:
        """Up to ``count`` further instances; fewer when there are no more, or when finding them takes more
        than ``MOST_DECISIONS`` decisions each.
        """
        drawn, until = 0, self._decisions + MOST_DECISIONS * count
        while drawn < count and self._root is not None and self._decisions < until:
            instance = self._dive(self._root)
            if instance is not None:
                drawn += 1
                yield instance

    def _dive(self, root: _Node) -> BoundedInstance | None:
        path = [root]
        while True:
            node = path[-1]
            if node.children is None:
                self._decisions += 1
                node.children = list(self._choices(node.current()))
            if node.children:
                path.append(self._random.choice(node.children))
                continue
            self._remove(path)
            return self._instance(node.current())

    def _remove(self, path: list[_Node]) -> None:
        """Takes a leaf out, and what has no leaves without it."""
        while len(path) > 1:
            leaf = path.pop()
            children = path[-1].children or []
            children[:] = [child for child in children if child is not leaf]
            if children:
                return
        self._root = None

    def _declared(self) -> dict[str, TensorType]:
        types: dict[str, TensorType] = {}
        for name, declared in self._equation.types:
            element = ELEMENT_TYPES_BY_SHORT_NAME.get(declared.element)
            if element is None:
                raise IllTypedError(f"{name}: unknown element type {declared.element}")
            sizes = tuple(d if isinstance(d, int) else symbol(d) for d in declared.shape)
            types[name] = TensorType(element, sizes)
        return types

    def _choices(self, state: _State) -> Sequence[_Node]:
        """What the next open decision can be; empty when nothing is open or nothing fits."""
        for name in self._names:
            if name not in state.types:
                return self._with_rank(state, name)
        while state.typed < len(self._applications):
            decided = self._type_next(state)
            if not isinstance(decided, _State):
                return decided
            state = decided
        if state.together is None:
            return self._with_outputs(state)
        free = sorted(frozenset[str]().union(*(type_.symbols for type_ in state.types.values())))
        return self._with_size(state, free[0]) if free else ()

    def _type_next(self, state: _State) -> _State | Sequence[_Node]:
        """The state with one more application typed, or what must be decided before."""
        term = self._applications[state.typed]
        try:
            found = [self._type_of(child, state) for child in term.inputs]
            for attribute, value in term.attributes:
                if isinstance(value, AttributeVariable) and value.name not in state.attributes:
                    pool = plausible_values(attribute, found)
                    return [
                        _Node(replace(state, attributes={**state.attributes, value.name: v})) for v in pool
                    ]
            if term.operator in GROUPED and [type_.rank for type_ in found] == [4, 4]:
                name, sizes = self._channels(*found)
                if name:
                    return [_Node(state, {name: size}) for size in sizes]
            own = [name for name in sorted(_optional(term, found)) if not name.startswith(FRESH)]
            if own:
                return self._with_size(state, own[0])
            skeleton = self._skeletons[term]
            typing = skeleton.typed(state)
        except DimensionMismatchError as mismatch:
            open_names = sorted(symbols_of(mismatch.left) | symbols_of(mismatch.right))
            own = [name for name in open_names if not name.startswith(FRESH)]
            return self._with_size(state, own[0]) if own else ()
        except IllTypedError:
            return ()
        solved = state.solved({n: d for n, d in typing.assignment.items() if not n.startswith(FRESH)})
        known = {**solved.known, term: typing.types[skeleton.term]} if _settled(term) else solved.known
        return replace(solved, known=known, typed=state.typed + 1)

    def _type_of(self, term: Term, state: _State) -> TensorType:
        if isinstance(term, Variable):
            return state.types[term.name]
        if term in state.known:
            return state.known[term]
        skeleton = self._skeletons[term]
        return skeleton.typed(state).types[skeleton.term]

    def _with_rank(self, state: _State, name: str) -> Sequence[_Node]:
        """The variable without sizes, of all ranks that no operator refuses for the ranks chosen before."""
        known = state.types.keys() | {name}
        decided = [term for term, own in self._variables_of.items() if name in own and own <= known]
        found: list[_Node] = []
        for rank in RANKS:
            shape = tuple(symbol(f"{name}.{axis}") for axis in range(rank))
            types = {**state.types, name: TensorType(ElementType.FLOAT, shape)}
            if all(self._ranks_fit(term, types) for term in decided):
                found.append(_Node(replace(state, types=types)))
        return found

    def _ranks_fit(self, term: Application, types: Mapping[str, TensorType]) -> bool:
        """Whether some values of attributes make the term well-typed, but for sizes."""
        for attributes in itertools.islice(_plausible(term, types), _MOST_ATTRIBUTES):
            try:
                infer_terms((term,), types, attributes)
            except RankMismatchError:
                continue
            except IllTypedError:
                return True
            return True
        return False

    def _with_size(self, state: _State, name: str) -> Sequence[_Node]:
        variable, _, axis = name.rpartition(".")
        sizes = self._sizes.plain
        if axis in ("2", "3") and variable in self._kernels:
            sizes = self._sizes.kernel
        elif axis in ("2", "3") and variable in self._images:
            sizes = self._sizes.image
        return [_Node(state, {name: size}) for size in sizes]

    def _channels(self, data: TensorType, weight: TensorType) -> tuple[str, Sequence[int]]:
        """One symbol in the channels of a convolution with the sizes to try; no name when there is none.

        Channels of the weight divide those of the data into groups, outputs are divided by their number. What
        a constant's types leave open is no decision here.
        """
        channels, per_group, outputs = data.shape[1], weight.shape[1], weight.shape[0]
        for dimension in (channels, per_group, outputs):
            names = sorted(name for name in symbols_of(dimension) if not name.startswith(FRESH))
            if not names:
                continue
            if not isinstance(channels, int) or as_symbol(dimension) is None:
                return names[0], self._sizes.plain
            if dimension is per_group:
                return names[0], [size for size in self._sizes.plain if channels % size == 0]
            groups = channels // max(1, per_group) if isinstance(per_group, int) else 1
            return names[0], [size for size in self._sizes.outputs if size % max(1, groups) == 0]
        return "", ()

    def _with_outputs(self, state: _State) -> Sequence[_Node]:
        """With the outputs' types unified and without: agreement of types is part of the claim."""
        types = impose(self._equation.conditions, dict(state.types), state.attributes)
        apart = replace(state, types=types, known={}, together=False)
        try:
            typing = infer_terms(self._terms, types, state.attributes, equal=self._pairs)
        except IllTypedError:
            return [_Node(apart)]
        together = replace(apart, together=True).solved(typing.assignment)
        return [_Node(together)] if together.types == types else [_Node(together), _Node(apart)]

    def _instance(self, state: _State) -> BoundedInstance | None:
        if state.together is None or any(type_.symbols for type_ in state.types.values()):
            return None
        key = (tuple(state.types.items()), tuple(sorted(state.attributes.items())))
        if key in self._seen:
            return None
        self._seen.add(key)
        if not all(type_.is_sized for type_ in state.types.values()):
            return None
        if not as_declared(self._equation.types, state.types):
            return None
        if not all(holds(c, state.types, state.attributes) for c in self._equation.conditions):
            return None
        typings = typings_of(self._equation, state.types, state.attributes)
        return BoundedInstance(state.types, state.attributes, typings) if typings else None


def _settled(term: Term) -> bool:
    """Whether the types of the term's variables leave nothing open below it."""
    return not any(OPERATORS[own.operator].implicit for own in applications(term))


def _skeleton(term: Application) -> _Skeleton:
    settled: dict[str, Term] = {}

    def abstracted(child: Term) -> Term:
        if isinstance(child, Variable):
            return child
        if _settled(child):
            name = f"{FRESH}{len(settled)}"
            settled[name] = child
            return Variable(name)
        return Application(child.operator, child.attributes, tuple(map(abstracted, child.inputs)))

    inputs = tuple(map(abstracted, term.inputs))
    return _Skeleton(Application(term.operator, term.attributes, inputs), tuple(settled.items()))


def _plausible(term: Application, types: Mapping[str, TensorType]) -> Iterator[dict[str, object]]:
    """Values of all attribute variables below the term; they vary most at the innermost operator."""
    open_: dict[str, tuple[object, ...]] = {}
    for own in applications(term):
        for attribute, value in own.attributes:
            if isinstance(value, AttributeVariable) and value.name not in open_:
                inputs = [types[name] for name in variables(own)[:1]]
                open_[value.name] = plausible_values(attribute, inputs)
    axes = sorted(open_, key=lambda name: not any(isinstance(value, int) for value in open_[name]))
    return (dict(zip(axes, values, strict=True)) for values in itertools.product(*(open_[n] for n in axes)))


_MOST_ATTRIBUTES = 60


def _optional(term: Application, inputs: Sequence[TensorType]) -> frozenset[str]:
    """Symbols that unification would decide although other sizes fit too: channels, groups, axes of 1."""
    sizes = OPERATORS[term.operator].optional_sizes(*inputs)
    return frozenset[str]().union(*map(symbols_of, sizes))
