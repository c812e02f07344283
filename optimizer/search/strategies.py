"""The strategies by the names that ``--search`` knows, and which one a graph gets by default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from optimizer.cost.graph_cost import GraphCost
from optimizer.search.backtracking import Backtracking
from optimizer.search.beam import Beam
from optimizer.search.protocol import Search
from optimizer.search.regional import Regional
from optimizer.search.sequence import Sequence, Stage
from superopt.errors import InvalidOptionError

_MANY_NODES = 1500


def _auto(start: GraphCost) -> Iterator[Stage]:
    """First what repeats everywhere, then region by region, then all again for longer."""
    if len(start.owner) <= _MANY_NODES:
        yield Stage(Backtracking(), 3000)
        yield Stage(Regional(Backtracking()))
        yield Stage(Backtracking())
    else:
        yield Stage(Regional(Backtracking()))


def searches() -> Mapping[str, Search]:
    """Every strategy by its name, the default first."""
    known: tuple[Search, ...] = (Sequence("auto", _auto), Backtracking(), Regional(), Beam())
    return {search.name: search for search in known}


def search_named(name: str) -> Search:
    """The strategy of that name; raises InvalidOptionError."""
    known = searches()
    if name not in known:
        raise InvalidOptionError(f"search: expected one of {', '.join(known)}, got {name!r}")
    return known[name]
