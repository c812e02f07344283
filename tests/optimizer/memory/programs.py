"""Programs whose memory is planned: random ones, and training steps of layers."""

from __future__ import annotations

import random

from superopt.optimizer.memory.liveness import Operation, Program

LAYER_BYTES = 100


def layers(count: int, *, size: int = LAYER_BYTES, cost: float = 1.0) -> Program:
    """A forward pass of layers, each from the one before, and a backward pass in which each gradient reads
    the layer below: tensor 0 is the input, 1 to ``count`` the layers, then their gradients from the last."""
    forward = [Operation(f"f{i}", (i - 1,), (i,), cost=cost) for i in range(1, count + 1)]
    backward = [
        Operation(f"b{i}", (i - 1, 2 * count - i), (2 * count - i + 1,), cost=cost)
        for i in range(count, 0, -1)
    ]
    return Program((*forward, *backward), (0, *(size,) * (2 * count)), frozenset({2 * count}))


def random_program(seed: int, count: int = 24) -> Program:
    """Operations that read up to three of the last results, or any; some are views or write in place."""
    source = random.Random(seed)
    sizes = [0]
    operations: list[Operation] = []
    for index in range(count):
        pool = range(max(0, index - source.choice((2, 6, count))), index + 1)
        reads = tuple(source.sample(pool, min(len(pool), source.randint(1, 3))))
        is_view = source.random() < 0.1
        sizes.append(sizes[reads[0]] if is_view else source.randint(1, 100))
        operations.append(
            Operation(
                f"o{index}",
                reads,
                (index + 1,),
                overwrites=reads[:1] if source.random() < 0.2 and not is_view else (),
                is_view=is_view and reads[0] != 0,
                workspace=source.choice((0, 0, 0, 20)),
                repeatable=is_view or source.random() < 0.9,
                cost=source.uniform(0.5, 5),
            )
        )
    read = {tensor for operation in operations for tensor in operation.reads}
    outputs = frozenset(set(range(1, count + 1)) - read)
    return Program(tuple(operations), tuple(sizes), outputs)
