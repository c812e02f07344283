"""Divided tensors as the shards that lie at places, each an array of its own: operators work shard by shard.

What follows what is written here anew as letters, one for each task dimension: ``matmul`` takes ``ik`` and
``kj`` to ``ij``; a dash is an axis that every task needs whole, and a letter that no output has is summed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tests.verifier.brute.basics import Attributes, Real, axis_of, need
from tests.verifier.brute.meaning import VALUES

Places = tuple[int, ...]
WHOLE = "-"
_AXES = "abcdefgh"
_BY_CHANNEL = (
    "maxpool",
    "avgpool",
    "global_avgpool",
    "enlarge",
    "upsample_nearest",
    "upsample_linear",
)


@dataclass(frozen=True)
class Shards:
    """``parts[replica, place along each axis]``; an axis lies at ``degrees`` places, in ``turns`` at each."""

    parts: Mapping[Places, Real]
    replicas: int
    degrees: Places
    turns: Places

    @property
    def layout(self) -> tuple[int, Places, Places]:
        """How it is divided."""
        return self.replicas, self.degrees, self.turns


def sharded(replicas: Sequence[Real], degrees: Places, turns: Places) -> Shards:
    """Whole arrays, one for each replica, cut into parts of equal size."""
    counts = [degree * batches for degree, batches in zip(degrees, turns, strict=True)]
    parts: dict[Places, Real] = {}
    for number, array in enumerate(replicas):
        for places in itertools.product(*map(range, counts)):
            cut = array
            for axis, (place, count) in enumerate(zip(places, counts, strict=True)):
                cut = np.split(cut, count, axis)[place]
            parts[number, *places] = cut
    return Shards(parts, len(replicas), degrees, turns)


def applied(operator: str, attributes: Attributes, *inputs: Shards) -> Shards:
    """The operator on divided tensors; raises IllTyped where a task does not find what it needs."""
    if not inputs:
        whole = np.asarray(VALUES[operator](attributes))
        return sharded([whole], (1,) * whole.ndim, (1,) * whole.ndim)
    need(attributes.get("degree", 1) >= 1)
    if operator in ("replicate", "reduce"):
        return _copies(operator, attributes["degree"], *inputs)
    if operator in ("partition", "pipeline"):
        return _taken_apart(operator, attributes, *inputs)
    if operator in ("combine", "batch"):
        return _put_together(operator, attributes, *inputs)
    read, written, order = _letters(operator, attributes, *(len(each.degrees) for each in inputs))
    if operator == "conv":
        read, written, order = _of_groups(attributes, inputs, read, written, order)
    if operator == "kernel_response" and _channels(inputs[1], 0) != _channels(inputs[0], 1):
        read, order = ["o---", "o"], "o"
    return _task_by_task(operator, attributes, inputs, (read, written, order))


def _task_by_task(
    operator: str, attributes: Attributes, inputs: Sequence[Shards], letters: tuple[list[str], str, str]
) -> Shards:
    read, written, order = letters
    division: dict[str, tuple[int, int]] = {}
    for each, names in zip(inputs, read, strict=True):
        for name, degree, turns in zip(names, each.degrees, each.turns, strict=True):
            need(name != WHOLE or degree == turns == 1)
            need(division.setdefault(name, (degree, turns)) == (degree, turns))
    parts = {name: degree * turns for name, (degree, turns) in division.items()}
    missing = [[name for name in order if name not in names] for names in (*read, written)]
    copies = [math.prod(division[name][0] for name in names) for names in missing]
    need(all(division[name][1] == 1 for name in missing[-1]))
    shared = {each.replicas // count for each, count in zip(inputs, copies, strict=False)}
    need(all(each.replicas % count == 0 for each, count in zip(inputs, copies, strict=False)))
    need(len(shared) == 1)
    (common,) = shared
    need(common == 1 or max(copies) == 1)
    made: dict[Places, Real] = {}
    for copy in range(common):
        for chosen in itertools.product(*(range(parts[name]) for name in order)):
            at = dict(zip(order, chosen, strict=True))

            keys = [
                (copy or _replica(absent, at, division), *(at.get(name, 0) for name in names))
                for names, absent in zip((*read, written), missing, strict=True)
            ]
            pieces = [each.parts[key] for each, key in zip(inputs, keys, strict=False)]
            made[keys[-1]] = np.asarray(VALUES[operator](attributes, *pieces))
    layout = [division.get(name, (1, 1)) for name in written]
    return Shards(made, common * copies[-1], tuple(d for d, _ in layout), tuple(t for _, t in layout))


def _replica(absent: Sequence[str], at: Mapping[str, int], division: Mapping[str, tuple[int, int]]) -> int:
    """Which replica a task reads or makes of what does not follow these letters."""
    number = 0
    for name in absent:
        degree, turns = division[name]
        number = number * degree + at[name] // turns
    return number


def _letters(operator: str, attributes: Attributes, *ranks: int) -> tuple[list[str], str, str]:
    """What each input follows, what the output follows, and all letters in the order of replicas."""
    axes = _AXES[: ranks[0]]
    if operator == "matmul":
        batch = _AXES[: max(ranks) - 2]
        left, right = (batch if rank > 2 else "" for rank in ranks)
        return [f"{left}ik", f"{right}kj"], f"{batch}ij", f"{batch}ijk"
    if operator == "conv":
        return ["nk--", "ok--"], "no--", "nok" if attributes.get("activation", "none") == "none" else "no"
    if operator == "kernel_response":
        return ["ok--", "k"], "o", "ok"
    if operator == "lookup":
        chosen = _AXES[: ranks[1]]
        return [f"{WHOLE}z", chosen], f"{chosen}z", f"{chosen}z"
    if operator in _BY_CHANNEL:
        return ["ab--"], "ab--", "ab"
    if operator == "scale":
        return [axes, ""], axes, axes
    if operator in ("bias_add", "channel_scale", "prelu", "affine"):
        own = axes[axis_of(attributes, (1,) * ranks[0])]
        return [axes, *(own for _ in ranks[1:])], axes, axes
    if operator == "transpose":
        perm = attributes.get("perm") or (*range(ranks[0] - 2), ranks[0] - 1, ranks[0] - 2)
        return [axes], "".join(axes[axis] for axis in perm), axes
    if operator in ("layer_normalization", "rms_normalization"):
        rows = axes[:-1] + WHOLE
        return [rows, *(WHOLE for _ in ranks[1:])], rows, axes[:-1]
    if operator == "lrn":
        return ["a-cd"], "a-cd", "acd"
    if operator in (
        "softmax",
        "log_softmax",
        "reduce_mean",
        "reduce_max",
        "concat",
        "split0",
        "split1",
        "reduce_sum",
    ):
        axis = axis_of(attributes, (1,) * ranks[0])
        whole = axes[:axis] + WHOLE + axes[axis + 1 :]
        if operator == "reduce_sum":
            return [axes], whole, whole.replace(WHOLE, "") + axes[axis]
        return [whole for _ in ranks], whole, whole.replace(WHOLE, "")
    need(len(set(ranks)) == 1)
    return [axes for _ in ranks], axes, axes


def _of_groups(
    attributes: Attributes, inputs: Sequence[Shards], read: list[str], written: str, order: str
) -> tuple[list[str], str, str]:
    """The letters of a convolution: with groups, channels of both are divided as groups are."""
    data, weight = inputs
    if _channels(data, 1) != _channels(weight, 1):
        return ["no--", "o---"], written, "no"
    if attributes.get("activation", "none") != "none":
        return ["n---", "o---"], written, "no"
    return read, written, order


def _copies(operator: str, degree: int, x: Shards) -> Shards:
    if operator == "replicate":
        more = {(r * degree + j, *p): part for (r, *p), part in x.parts.items() for j in range(degree)}
        return Shards(more, x.replicas * degree, x.degrees, x.turns)
    need(x.replicas % degree == 0)
    sums: dict[Places, Real] = {}
    for (replica, *places), part in x.parts.items():
        key = (replica // degree, *places)
        sums[key] = sums[key] + part if key in sums else part
    return Shards(sums, x.replicas // degree, x.degrees, x.turns)


def _taken_apart(operator: str, attributes: Attributes, x: Shards) -> Shards:
    degree, axis = attributes["degree"], axis_of(attributes, x.degrees)
    parts: dict[Places, Real] = {}
    for (replica, *places), part in x.parts.items():
        need(part.shape[axis] % degree == 0)
        for number, piece in enumerate(np.split(part, degree, axis)):
            parts[replica, *places[:axis], places[axis] * degree + number, *places[axis + 1 :]] = piece
    if operator == "partition":
        return Shards(parts, x.replicas, _changed(x.degrees, axis, x.degrees[axis] * degree), x.turns)
    return Shards(parts, x.replicas, x.degrees, _changed(x.turns, axis, x.turns[axis] * degree))


def _put_together(operator: str, attributes: Attributes, x: Shards) -> Shards:
    degree, axis = attributes["degree"], axis_of(attributes, x.degrees)
    need((x.degrees if operator == "combine" else x.turns)[axis] % degree == 0)
    groups: dict[Places, list[Real]] = {}
    for replica, *places in sorted(x.parts):
        key = (replica, *places[:axis], places[axis] // degree, *places[axis + 1 :])
        groups.setdefault(key, []).append(x.parts[replica, *places])
    parts = {key: np.concatenate(pieces, axis) for key, pieces in groups.items()}
    if operator == "combine":
        return Shards(parts, x.replicas, _changed(x.degrees, axis, x.degrees[axis] // degree), x.turns)
    return Shards(parts, x.replicas, x.degrees, _changed(x.turns, axis, x.turns[axis] // degree))


def _changed(counts: Places, axis: int, count: int) -> Places:
    return (*counts[:axis], count, *counts[axis + 1 :])


def _channels(of: Shards, axis: int) -> int:
    return next(iter(of.parts.values())).shape[axis] * of.degrees[axis] * of.turns[axis]
