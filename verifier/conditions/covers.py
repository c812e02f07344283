"""Minimal conjunctions of atoms that exclude given instances, as bit sets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from superopt.verifier.conditions.atoms import Atom

MOST_ATOMS = 5
_MOST_STEPS = 20_000
_WIDEST = 6
_MOST_PROMISING = (100_000, 400, 120)
"""Number of atoms from which conjunctions of one, of two and of three are formed."""


def simplest_cover(necessary: Sequence[Atom], differs: int) -> tuple[Atom, ...] | None:
    """Return the atoms of least total cost such that every differing place violates one; None if impossible.

    Depth-first search over the place that the fewest atoms exclude (the heuristic of exact cover, Knuth
    2000), with a bound on cost and steps; the first cover found is the greedy one.
    """
    ruled_out = [differs & ~atom.true for atom in necessary]
    everything = 0
    for bits in ruled_out:
        everything |= bits
    if everything != differs:
        return None
    best: list[tuple[float, tuple[int, ...]]] = []
    steps = itertools.count()
    cheapest = min((atom.cost for atom in necessary), default=0.0)

    def search(open_: int, chosen: tuple[int, ...], cost: float) -> None:
        if best and cost + (cheapest if open_ else 0) >= best[0][0]:
            return
        if not open_:
            best[:] = [(cost, chosen)]
            return
        if next(steps) > _MOST_STEPS or (best and len(chosen) == MOST_ATOMS):
            return
        place = _hardest(open_, ruled_out)
        options = [i for i, bits in enumerate(ruled_out) if bits & place]
        options.sort(key=lambda i: (-(ruled_out[i] & open_).bit_count() / necessary[i].cost, i))
        for i in options:
            search(open_ & ~ruled_out[i], (*chosen, i), cost + necessary[i].cost)

    search(differs, (), 0.0)
    return tuple(necessary[i] for i in sorted(best[0][1]))


def widest_conjunctions(every: Sequence[Atom], agrees: int, differs: int) -> Iterator[tuple[Atom, ...]]:
    """Yield conjunctions of at most three atoms that exclude every differing place, widest first."""
    useful = [atom for atom in every if atom.true & agrees]
    found: dict[int, tuple[float, tuple[Atom, ...]]] = {}

    def note(chosen: tuple[Atom, ...], true: int) -> None:
        cost = sum(atom.cost for atom in chosen)
        known = found.get(true)
        if known is None or cost < known[0]:
            found[true] = (cost, chosen)

    for size, most in enumerate(_MOST_PROMISING, 1):
        pool = _promising(useful, agrees, differs, most)
        for chosen in itertools.combinations(pool, size):
            true = chosen[0].true
            for atom in chosen[1:]:
                true &= atom.true
            if not true & differs and true & agrees:
                note(chosen, true)
    ranked = sorted(found.items(), key=lambda item: (-_worth(item[0], item[1][0]), item[0]))
    return (chosen for _, (_, chosen) in ranked[:_WIDEST])


def _worth(true: int, cost: float) -> float:
    """Score the number of kept places against the cost of the clause: simple conditions may lose some
    places."""
    return true.bit_count() / cost**1.5


def _promising(useful: Sequence[Atom], agrees: int, differs: int, most: int) -> list[Atom]:
    """Return the atoms that keep many agreeing places and exclude many differing ones."""

    def promise(atom: Atom) -> float:
        kept = (atom.true & agrees).bit_count() / max(1, agrees.bit_count())
        ruled_out = (differs & ~atom.true).bit_count() / max(1, differs.bit_count())
        return kept * ruled_out / atom.cost

    chosen = set(sorted(useful, key=promise, reverse=True)[:most])
    return [atom for atom in useful if atom in chosen]


def _hardest(open_: int, ruled_out: Sequence[int]) -> int:
    """Return, as a bit, the open place among the first ones that the fewest atoms exclude."""
    hardest, fewest = 0, len(ruled_out) + 1
    for _ in range(24):
        if not open_:
            break
        place = open_ & -open_
        open_ ^= place
        count = sum(1 for bits in ruled_out if bits & place)
        if count < fewest:
            hardest, fewest = place, count
    return hardest
