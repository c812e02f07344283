"""Search strategies by their ``--search`` names, and the default for a graph."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.errors import InvalidOptionError
from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.protocol import Search
from superopt.optimizer.search.strategies.backtracking import Backtracking
from superopt.optimizer.search.strategies.beam import Beam
from superopt.optimizer.search.strategies.descent import Descent
from superopt.optimizer.search.strategies.lookahead import Lookahead
from superopt.optimizer.search.strategies.normalise import Normalise
from superopt.optimizer.search.strategies.regional import ROUNDS, Regional
from superopt.optimizer.search.strategies.sequence import Course, Sequence, Stage

_MANY_NODES = 1500
_SHARE_OF_WHOLE = 0.4
"""Share of the time for which a large graph is searched as a whole."""

_SHARE_OF_PAIRS = 0.25
"""Share of the remaining time for pairs of steps."""

_SHARE_ANEW = 0.15
"""Share of the remaining time for a descent from the original."""

_LEAST_LOOK = 20


def _auto(start: GraphCost) -> Course:
    """Normalisation and descent apply what pays at once. Then backtracking finds distant and repeated
    rewrites, regional search local ones, beam search those with costly intermediate steps: first each for a
    short time, then larger regions and the whole while time remains. Where backtracking leaves nothing within
    alpha, only beam search, or another start, can find more, and gets as many candidates. A normal form
    may be in the way of what gains more, so the descent also begins from the original."""
    is_small = len(start.owner) <= _MANY_NODES
    normalised = yield Stage(Normalise())
    yield Stage(Descent())
    if normalised.trace:
        yield Stage(Descent(), share=_SHARE_ANEW, anew=True)
    ahead = yield Stage(Lookahead(), share=_SHARE_OF_PAIRS)
    if ahead.trace:
        yield Stage(Descent())
    if not is_small:
        yield Stage(Backtracking(), share=_SHARE_OF_WHOLE)
    while is_small:
        whole = yield Stage(Backtracking(), 3000)
        if whole.stopped_by != "exhausted":
            break
        beamed = yield Stage(Beam(), max(whole.candidates, _LEAST_LOOK))
        if beamed.best.total >= whole.best.total:
            if normalised.trace:
                yield Stage(Backtracking(), max(whole.candidates, _LEAST_LOOK), anew=True)
            return
    yield Stage(Regional(Backtracking(), ROUNDS[:2]))
    yield Stage(Regional(Beam(), ROUNDS[:2]))
    yield Stage(Regional(Backtracking(), ROUNDS[2:]))
    yield Stage(Backtracking())


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
