"""What is expected of a model: at which sizes it runs, and how fast another one must be."""

from __future__ import annotations

from collections.abc import Sequence

from superopt.optimizer.cost import GraphCost
from superopt.options import Options


def refusal_of(options: Options, guessed: Sequence[str] = ()) -> str:
    """Why the original does not run: at the sizes that were asked for, or at any that was tried for those
    ``guessed``; and what to do."""
    sizes = ", ".join(f"{name}={size}" for name, size in options.dims.items())
    why = f"the original does not run at {sizes}" if sizes else "the original does not run on random inputs"
    wanted = (
        f"sizes of {', '.join(guessed)} that it runs at (--dim {guessed[0]}=SIZE)" if guessed else "others"
    )
    return f"{why}; give {wanted}, or --inputs"


def minimal_ratio(start: GraphCost, options: Options) -> float:
    """How fast a rewritten model must be: not at all, when the original needs more memory than there is."""
    if start.penalty:
        return 0.0
    return 1.0 if options.objective in ("latency", "throughput") else 0.99
