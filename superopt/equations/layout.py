"""Layered graph layout of one side of an equation: inputs above, outputs below, edges between.

Layers by longest path, order by barycentres, long edges routed through slots reserved in each layer
(Sugiyama, Tagawa and Toda 1981). Lengths are in pixels.
"""

from __future__ import annotations

import enum
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean

from superopt.equations.abbreviation import abbreviated
from superopt.equations.printer import format_attribute
from superopt.ir.terms import Application, Term, Variable, subterms

CHARACTER = 7.8
"""Width of a character of an operator's name, in a monospaced font of 13 pixels."""

SMALL_CHARACTER = 6.6
"""Width of a character of an attribute, at 11 pixels."""

LINE = 17.0
SMALL_LINE = 14.0
PADDING = 8.0
BETWEEN = 18.0
LAYER_GAP = 30.0

_ATTRIBUTES_WIDTH = 24
_BEND = 10.0
_SWEEPS = 8


class Kind(enum.StrEnum):
    """The kind of a box."""

    INPUT = "input"
    OPERATOR = "operator"
    CONSTANT = "constant"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Point:
    """Coordinates from the upper left corner."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Box:
    """A node: its name, lines of attributes below, and its upper left corner."""

    kind: Kind
    name: str
    attributes: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Edge:
    """The points of an edge, from producer to consumer, downwards."""

    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes and edges within ``width`` and ``height``."""

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float


@dataclass(frozen=True)
class _Node:
    """A node of the layout graph: a term, an output, or a bend of a long edge; ``key`` breaks ties."""

    key: int
    kind: Kind | None
    name: str
    attributes: tuple[str, ...]
    layer: int

    @cached_property
    def width(self) -> float:
        if self.kind is None:
            return _BEND
        if self.kind is Kind.OUTPUT:
            return LINE + (len(self.name) - 1) * CHARACTER if self.name else _BEND
        small = max((len(line) for line in self.attributes), default=0) * SMALL_CHARACTER
        return max(len(self.name) * CHARACTER, small) + 2 * PADDING

    @cached_property
    def height(self) -> float:
        if self.kind in (None, Kind.OUTPUT):
            return LINE if self.name else 0.0
        return LINE + len(self.attributes) * SMALL_LINE + PADDING

    def box(self, corner: Point) -> Box:
        """The box of a node that is not a bend."""
        assert self.kind is not None
        return Box(self.kind, self.name, self.attributes, corner.x, corner.y, self.width, self.height)


@dataclass(frozen=True)
class _Link:
    """A segment of an edge between adjacent layers; it enters at slot ``port`` of ``ports``."""

    upper: int
    lower: int
    port: int = 0
    ports: int = 1

    @property
    def shift(self) -> float:
        """Horizontal offset of its end from the middle of the lower node."""
        return (self.port - (self.ports - 1) / 2) * _BEND


class _Ends:
    """Links by their upper node, and by their lower node."""

    def __init__(self, links: Sequence[_Link]) -> None:
        self.below: defaultdict[int, list[_Link]] = defaultdict(list)
        self.above: defaultdict[int, list[_Link]] = defaultdict(list)
        for link in links:
            self.below[link.upper].append(link)
            self.above[link.lower].append(link)


def layout(side: Sequence[Term]) -> Layout:
    """Layout of one side of an equation: every distinct subterm once, outputs numbered if there are
    several."""
    nodes, chains = _graph(side)
    ends = _Ends([link for chain in chains for link in chain])
    rows = _ordered(nodes, ends)
    middles = _placed(rows, nodes, ends)
    tops = _tops(rows, nodes)
    places = {key: Point(middles[key] - node.width / 2, tops[key]) for key, node in nodes.items()}
    return Layout(
        boxes=tuple(node.box(places[key]) for key, node in nodes.items() if node.kind is not None),
        edges=tuple(Edge(tuple(_points(chain, nodes, places))) for chain in chains),
        width=max(places[key].x + node.width for key, node in nodes.items()),
        height=max(places[key].y + node.height for key, node in nodes.items()),
    )


def _graph(side: Sequence[Term]) -> tuple[dict[int, _Node], list[list[_Link]]]:
    """The nodes by key, and each edge as a chain of links."""
    terms = list(subterms(*side))
    keys = {term: key for key, term in enumerate(terms)}
    layers = _layers(terms)
    last = max(layers.values()) + 1
    nodes = {keys[term]: _term_node(keys[term], term, layers[term]) for term in terms}
    chains: list[list[_Link]] = []

    def connect(upper: int, lower: int, port: int, ports: int) -> None:
        above, chain = upper, list[_Link]()
        for layer in range(nodes[upper].layer + 1, nodes[lower].layer):
            bend = len(nodes)
            nodes[bend] = _Node(bend, None, "", (), layer)
            chain.append(_Link(above, bend))
            above = bend
        chains.append([*chain, _Link(above, lower, port, ports)])

    for term in terms:
        if isinstance(term, Application):
            for port, child in enumerate(term.inputs):
                connect(keys[child], keys[term], port, len(term.inputs))
    for number, term in enumerate(side, 1):
        output = len(nodes)
        nodes[output] = _Node(output, Kind.OUTPUT, str(number) if len(side) > 1 else "", (), last)
        connect(keys[term], output, 0, 1)
    return nodes, chains


def _layers(terms: Sequence[Term]) -> dict[Term, int]:
    """Longest path from above; nodes without inputs are just above their first consumer."""
    layers: dict[Term, int] = {}
    for term in terms:
        inputs = term.inputs if isinstance(term, Application) else ()
        layers[term] = 1 + max((layers[child] for child in inputs), default=-1)
    for term in terms:
        users = [layers[t] for t in terms if isinstance(t, Application) and term in t.inputs]
        if users and not (isinstance(term, Application) and term.inputs):
            layers[term] = min(users) - 1
    return layers


def _term_node(key: int, term: Term, layer: int) -> _Node:
    if isinstance(term, Variable):
        return _Node(key, Kind.INPUT, term.name, (), layer)
    kind = Kind.OPERATOR if term.inputs else Kind.CONSTANT
    return _Node(key, kind, term.operator, tuple(_attribute_lines(term)), layer)


def _attribute_lines(term: Application) -> Iterator[str]:
    line = ""
    for text in (abbreviated(format_attribute(name, value)) for name, value in term.attributes):
        if line and len(line) + 2 + len(text) > _ATTRIBUTES_WIDTH:
            yield f"{line},"
            line = text
        else:
            line = f"{line}, {text}" if line else text
    if line:
        yield line


def _ordered(nodes: Mapping[int, _Node], ends: _Ends) -> list[list[int]]:
    """The nodes of each layer from left to right, with few crossings."""
    rows: list[list[int]] = [[] for _ in range(1 + max(node.layer for node in nodes.values()))]
    for key, node in sorted(nodes.items()):
        rows[node.layer].append(key)
    best, fewest = [list(row) for row in rows], _crossings(rows, ends)
    for sweep in range(_SWEEPS):
        place = {key: i / max(1, len(row)) for row in rows for i, key in enumerate(row)}
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = {key: _wanted(key, ends, place, sweep) for key in row}
            row.sort(key=lambda key, wanted=wanted: (wanted[key], key))
            place |= {key: i / len(row) for i, key in enumerate(row)}
        crossings = _crossings(rows, ends)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _wanted(key: int, ends: _Ends, place: Mapping[int, float], sweep: int) -> float:
    """The mean position of a node's neighbours above, or below in every other sweep."""
    if sweep % 2 == 0:
        places = [place[link.upper] for link in ends.above[key]]
    else:
        places = [place[link.lower] + link.port / link.ports / 100 for link in ends.below[key]]
    return fmean(places) if places else place[key]


def _crossings(rows: Sequence[Sequence[int]], ends: _Ends) -> int:
    """The number of crossings."""
    place = {key: number for row in rows for number, key in enumerate(row)}
    crossings = 0
    for row in rows:
        passed: list[tuple[int, int]] = []
        for key in row:
            arrivals = [(place[link.lower], link.port) for link in ends.below[key]]
            crossings += sum(len(passed) - bisect_right(passed, arrival) for arrival in arrivals)
            for arrival in arrivals:
                insort(passed, arrival)
    return crossings


def _placed(rows: Sequence[Sequence[int]], nodes: Mapping[int, _Node], ends: _Ends) -> dict[int, float]:
    """The horizontal centre of each node, from 0: close to the mean of its neighbours, keeping the order in
    its layer."""
    middles: dict[int, float] = {}
    gaps = [[(nodes[a].width + nodes[b].width) / 2 + BETWEEN for a, b in pairwise(row)] for row in rows]
    spaced = list(zip(rows, gaps, strict=True))
    for row, between in spaced:
        middles |= dict(zip(row, _apart([0.0] * len(row), between), strict=True))
    for sweep in range(4 * _SWEEPS):
        for row, between in spaced if sweep % 2 == 0 else reversed(spaced):
            targets = [_target(key, ends, middles, sweep) for key in row]
            middles |= dict(zip(row, _apart(targets, between), strict=True))
    left = min(middles[key] - nodes[key].width / 2 for key in middles)
    return {key: middle - left for key, middle in middles.items()}


def _target(key: int, ends: _Ends, middles: Mapping[int, float], sweep: int) -> float:
    """The mean position of a node's neighbours: on one side, or on both in every fourth sweep."""
    above = [middles[link.upper] - link.shift for link in ends.above[key]] if sweep % 4 != 3 else []
    below = [middles[link.lower] + link.shift for link in ends.below[key]] if sweep % 4 != 0 else []
    places = above + below
    return fmean(places) if places else middles[key]


def _apart(targets: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Positions near the targets that keep order and distances: the mean of packing from the left and from
    the right."""
    rightwards = [targets[0]]
    for gap, target in zip(gaps, targets[1:], strict=True):
        rightwards.append(max(target, rightwards[-1] + gap))
    leftwards = [targets[-1]]
    for gap, target in zip(reversed(gaps), reversed(targets[:-1]), strict=True):
        leftwards.append(min(target, leftwards[-1] - gap))
    return [(a + b) / 2 for a, b in zip(rightwards, reversed(leftwards), strict=True)]


def _tops(rows: Sequence[Sequence[int]], nodes: Mapping[int, _Node]) -> dict[int, float]:
    """The top of each node; nodes of a layer share their vertical centre."""
    tops: dict[int, float] = {}
    y = 0.0
    for row in rows:
        height = max(nodes[key].height for key in row)
        tops |= {key: y + (height - nodes[key].height) / 2 for key in row}
        y += height + LAYER_GAP
    return tops


def _points(
    chain: Sequence[_Link], nodes: Mapping[int, _Node], places: Mapping[int, Point]
) -> Iterator[Point]:
    def middle(key: int) -> float:
        return places[key].x + nodes[key].width / 2

    first, last = chain[0].upper, chain[-1]
    yield Point(middle(first), places[first].y + nodes[first].height)
    for link in chain[:-1]:
        yield Point(middle(link.lower), places[link.lower].y - LINE / 2)
        yield Point(middle(link.lower), places[link.lower].y + LINE / 2)
    yield Point(middle(last.lower) + last.shift, places[last.lower].y)
