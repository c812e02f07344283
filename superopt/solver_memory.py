"""Memory that a solver lacks is an error, because it says nothing about the question."""

from __future__ import annotations

_SIGNS = ("memory", "memout", "bad_alloc")


def require_memory(reason: str) -> None:
    """Raise MemoryError if this is why a solver that ran out of memory gave no answer."""
    if any(sign in reason for sign in _SIGNS):
        raise MemoryError(f"a solver ran out of memory: {reason}")


__all__ = ["require_memory"]
