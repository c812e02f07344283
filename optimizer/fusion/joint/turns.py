"""Orders of kernels in which sending begins early, and is never short of work.

Computing and sending are a flow shop of two machines, in which a bucket is sent after the kernels that it
waits for. Johnson's rule (1954) has no form for jobs that share work; here the next bucket is the one with
the largest quotient of its time of sending and that of the kernels that it still waits for, as in Smith's
rule for weighted jobs. ``shortest_first`` is the rule without the time of sending.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import Timed

Floats = NDArray[np.float64]
Turns = tuple[int, ...]
_Next = Callable[[Floats, Floats], int]
"""Of the microseconds of computing that buckets wait for, and those of sending them: which is next."""


def densest_first(joint: Joint) -> Turns:
    """Turns by which most is sent for what is computed."""
    return _turns(joint, lambda computing, sending: int(np.argmax(sending / (computing + 1e-3))))


def shortest_first(joint: Joint) -> Turns:
    """Turns by which the next bucket is that which waits for the least computing."""
    return _turns(joint, lambda computing, _: int(np.argmin(computing)))


def send_earlier_somewhere(joint: Joint, known: Timed, chance: random.Random) -> bool:
    """Lets what a random bucket waits for have no later turn than what an earlier one waits for. A method, as
    those of DisCo."""
    if len(known.sent) < 2:
        return False
    place = chance.randrange(1, len(known.sent))
    later, earlier = (joint.bucket[known.sent[one]] for one in (place, chance.randrange(place)))
    turns = [joint.turn(head)[0] for head in joint.owner]
    turn = max(turns[number] for number in _before(joint, earlier))
    moved = [number for number in _before(joint, later) if turns[number] > turn]
    for number in moved:
        turns[number] = turn
    if moved:
        joint.turns = tuple(turns)
    return bool(moved)


def _before(joint: Joint, bucket: int) -> set[int]:
    """The operations that a bucket waits for."""
    size, found = joint.problem.size, set[int]()
    waiting = [size + bucket]
    while waiting:
        new = joint.before(waiting.pop()) - found
        found |= new
        waiting.extend(new)
    return {number for node in found if node < size for number in joint.nodes[node].owned}


def _turns(joint: Joint, choose: _Next) -> Turns:
    heads = [*joint.nodes]
    columns = {head: column for column, head in enumerate(heads)}
    buckets = [*joint.buckets]
    computing = np.array([joint.nodes[head].kernel.microseconds for head in heads])
    sending = np.array([joint.problem.collective(joint.buckets[one]).microseconds for one in buckets])
    needed = np.zeros((len(buckets), len(heads)), dtype=bool)
    for row, bucket in enumerate(buckets):
        needed[row, [columns[joint.owner[number]] for number in _before(joint, bucket)]] = True
    turns = [len(buckets)] * joint.problem.size
    missing = np.ones(len(heads), dtype=bool)
    waiting = [*range(len(buckets))]
    for turn in range(len(buckets)):
        left = (needed[waiting] & missing).dot(computing)
        row = waiting.pop(choose(left, sending[waiting]))
        for column in np.flatnonzero(needed[row] & missing):
            for number in joint.nodes[heads[column]].owned:
                turns[number] = turn
        missing &= ~needed[row]
    return tuple(turns)
