"""Random sampling without repetition of the small well-typed instances of an equation.

The decisions make a tree. Where unification would decide more than is needed (groups of a convolution, axes
of a broadcast, rounded divisions) the sizes are tried one by one. A drawn leaf is taken out of the tree, so
that a small tree is exhausted and a large one is sampled.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from superopt.errors import DimensionMismatchError
from superopt.instances.channels import Sizes, channel_sizes
from superopt.instances.instance import Instance
from superopt.instances.program import Instruction, Program
from superopt.instances.search import IMPLICIT, State, TypingSearch, solved_for_any
from superopt.instances.values import likely_values
from superopt.instances.whole import typings_of
from superopt.ir.dimensions import Dimension, symbol, symbols_of
from superopt.ir.terms import Equation, variables
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import OPERATORS
from superopt.ops.roles import Product
from superopt.ops.traits import GROUPED, named
from superopt.rewriting.conditions import as_declared, holds
from superopt.rewriting.typing import Typing

LARGEST_RANK = 4
MOST_DECISIONS = 30
"""How many open decisions are looked at for each instance asked for; most need ten, dead ends included."""

_WINDOWED = GROUPED | named(lambda operator: operator.windowed)


@dataclass(frozen=True)
class DrawnInstance:
    """Types of the variables, values of attribute variables, the typings for all that these leave open.

    The equation claims nothing where sizes are left open and all choices make the outputs' types differ.
    """

    types: Mapping[str, TensorType]
    attributes: Mapping[str, object]
    typings: tuple[Typing, ...]
    is_claim: bool


@dataclass
class _Node:
    """A state, and what follows from it: found when it is met."""

    state: State
    children: list[_Node] | None = None
    is_whole: bool = False


class DrawnInstances(TypingSearch):
    """Draws well-typed instances at which the equation's own conditions hold; the same for the same seed."""

    def __init__(self, equation: Equation, sizes: Sizes, seed: int) -> None:
        super().__init__(Program(equation), LARGEST_RANK)
        self._sizes = sizes
        self._random = random.Random(seed)
        windowed = [step.term for step in self.program.steps if step.term.operator in _WINDOWED]
        self._kernels = frozenset(
            name for term in windowed for child in term.inputs[1:] for name in variables(child)
        )
        self._images = frozenset(self.program.names) - self._kernels if windowed else frozenset[str]()
        self._root: _Node | None = _Node(self.start())
        self._seen: set[object] = set()
        self._decisions = 0

    def draw(self, count: int) -> Iterator[DrawnInstance]:
        """Up to ``count`` further instances; fewer when there are no more, or when finding them takes more
        than ``MOST_DECISIONS`` decisions each.
        """
        drawn, until = 0, self._decisions + MOST_DECISIONS * count
        while drawn < count and self._root is not None and self._decisions < until:
            instance = self._dive(self._root)
            if instance is not None:
                drawn += 1
                yield instance

    def instances(self, count: int) -> Iterator[Instance]:
        """Up to ``count`` at which the equation claims something, each with one of its typings."""
        for number, drawn in enumerate(each for each in self.draw(count) if each.is_claim):
            typing = drawn.typings[number % len(drawn.typings)]
            yield Instance(drawn.types, drawn.attributes, typing)

    def fresh(self, name: str, rank: int, attributes: Mapping[str, object]) -> Sequence[TensorType]:
        """The one with a symbol for each size."""
        del attributes
        shape = tuple(symbol(f"{name}.{axis}") for axis in range(rank))
        return (TensorType(ElementType.FLOAT, shape),)

    def values(self, name: str, step: Instruction, attribute: str, state: State) -> Iterable[object]:
        """All that are likely."""
        del name
        return likely_values(attribute, [state.known(place) for place in step.inputs])

    def numbers(self, step: Instruction, state: State) -> Iterable[Mapping[str, Dimension]] | None:
        """One size that unification would decide although others fit too: channels, groups, axes of 1."""
        found = [state.known(place) for place in step.inputs]
        operator = OPERATORS[step.term.operator]
        if operator.product is Product.CONVOLUTION:
            return channel_sizes(found, self._sizes)
        sizes = operator.optional_sizes(*found)
        return self._of_first(sizes) if sizes else None

    def undecided(self, mismatch: DimensionMismatchError, state: State) -> Iterable[Mapping[str, Dimension]]:
        """One of the inputs' sizes in it."""
        inputs = state.types[: len(self.program.names)]
        own = frozenset[str]().union(*(type_.symbols for type_ in inputs if type_ is not None))
        met = symbols_of(mismatch.left) | symbols_of(mismatch.right)
        return self._of_first(map(symbol, met & own)) or ()

    def begun(self, state: State) -> State:
        """With the sizes that conditions ask to be equal."""
        return self.with_implied_sizes(state)

    def _dive(self, root: _Node) -> DrawnInstance | None:
        path = [root]
        while True:
            node = path[-1]
            if node.children is None:
                self._decisions += 1
                node.children = self._children(node)
            if node.children:
                path.append(self._random.choice(node.children))
                continue
            self._remove(path)
            return self._instance(node.state) if node.is_whole else None

    def _children(self, node: _Node) -> list[_Node]:
        """What the next decision can be; a node is whole when the outputs' types are decided too."""
        if node.is_whole:
            node.state = state = node.state.current
            inputs = (state.known(place) for place in range(len(self.program.names)))
            free = sorted(frozenset[str]().union(*(type_.symbols for type_ in inputs)))
            sizes = self._of_first(map(symbol, free)) or ()
            return [_Node(state.deciding(size), is_whole=True) for size in sizes]
        following = self.branches(node.state)
        if not isinstance(following, State):
            return [_Node(state) for state in following]
        apart = self.begun(following)
        together, possible = self.agreed(apart, solved_for_any)
        count = len(self.program.names)
        if not possible:
            return [_Node(apart, is_whole=True)]
        if together.types[:count] == apart.types[:count]:
            return [_Node(together, is_whole=True)]
        return [_Node(together, is_whole=True), _Node(apart, is_whole=True)]

    def _remove(self, path: list[_Node]) -> None:
        """Takes a leaf out, and what has no leaves without it."""
        while len(path) > 1:
            leaf = path.pop()
            children = path[-1].children or []
            children[:] = [child for child in children if child is not leaf]
            if children:
                return
        self._root = None

    def _of_first(self, dimensions: Iterable[Dimension]) -> list[Mapping[str, Dimension]] | None:
        """Sizes to try for the first symbol in one of them; None when there is none to decide."""
        names = sorted(frozenset[str]().union(*map(symbols_of, dimensions)))
        name = next((name for name in names if not name.startswith(IMPLICIT)), None)
        return None if name is None else [{name: size} for size in self._sizes_of(name)]

    def _sizes_of(self, name: str) -> Sequence[int]:
        variable, _, axis = name.rpartition(".")
        if axis in ("2", "3") and variable in self._kernels:
            return self._sizes.kernel
        return self._sizes.image if axis in ("2", "3") and variable in self._images else self._sizes.plain

    def _instance(self, state: State) -> DrawnInstance | None:
        inputs = [state.known(place) for place in range(len(self.program.names))]
        if any(type_.symbols or not type_.is_sized for type_ in inputs):
            return None
        types = dict(zip(self.program.names, inputs, strict=True))
        key = (tuple(inputs), tuple(sorted(state.attributes.items())))
        if key in self._seen:
            return None
        self._seen.add(key)
        equation = self.program.equation
        if not as_declared(equation.types, types):
            return None
        if not all(holds(c, types, state.attributes) for c in equation.conditions):
            return None
        typings, is_claim = typings_of(equation, types, state.attributes)
        return DrawnInstance(types, state.attributes, typings, is_claim) if typings else None
