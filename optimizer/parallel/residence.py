"""Where tensors stay: inputs and weights in the parts that are read, next values of states where the step
reads the state.

A device holds every input and every weight in each region that one of its tasks reads, throughout. The next
value of a state is brought to wherever the step reads the state, so that a step starts where the last one
ended.
"""

from __future__ import annotations

from collections.abc import Iterable

from superopt.optimizer.parallel.boxes import Region, meet
from superopt.optimizer.parallel.communication import legs
from superopt.optimizer.parallel.placement import Placement, regions_of

Kept = tuple[Region, bool]
"""A region of an input or weight, and whether it is zeros: a term of a sum whose first term is the tensor."""


def kept_regions(placements: Iterable[Placement], shape: tuple[int, ...]) -> dict[int, tuple[Kept, ...]]:
    """By device: the regions of an input or weight that it holds, each once."""
    found: dict[int, dict[Kept, None]] = {}
    for placement in placements:
        first = frozenset(placement.of_terms((0,)).devices)
        for device, region in regions_of(placement, shape).items():
            found.setdefault(device, {})[region, device not in first] = None
    return {device: tuple(regions) for device, regions in found.items()}


def residences(
    placements: Iterable[Placement], shape: tuple[int, ...], terms: Placement | None = None
) -> tuple[Placement, ...]:
    """The placements in which a state stays, given those in which it is read: those that are not parts of
    another. Of a sum, the first term is the state, unless it may stay in the ``terms`` in which it is
    computed and nothing reads it otherwise."""
    read = list(dict.fromkeys(placements))
    if terms is not None and terms.partial > 1 and read == [terms]:
        return (terms,)
    distinct = list(dict.fromkeys(place.of_terms((0,)) for place in read))
    regions = [regions_of(place, shape) for place in distinct]
    return tuple(
        place
        for number, place in enumerate(distinct)
        if not any(
            _is_within(regions[number], other) and (regions[number] != other or earlier < number)
            for earlier, other in enumerate(regions)
            if earlier != number
        )
    )


def shares(have: Placement, want: Placement, shape: tuple[int, ...]) -> frozenset[int]:
    """The devices whose part in ``want`` is the very array that they hold in ``have``."""
    found: set[int] = set()
    for leg in legs(have, want, shape):
        if leg.have is not None and leg.have.partial == 1:
            held = regions_of(leg.have, shape)
            wanted = regions_of(leg.want, shape)
            found.update(device for device, region in wanted.items() if held.get(device) == region)
    return frozenset(found)


def _is_within(inner: dict[int, Region], outer: dict[int, Region]) -> bool:
    return all(device in outer and _contains(outer[device], region) for device, region in inner.items())


def _contains(outer: Region, inner: Region) -> bool:
    return outer == inner or meet(outer, inner) == inner
