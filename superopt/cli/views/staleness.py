"""Warnings about rules that are not used because the software has changed since their proofs."""

from __future__ import annotations


def stale_warning(stale: int) -> list[str]:
    """The warning that so many rules are not used; none if there are none."""
    if not stale:
        return []
    rules = "1 proved rule is" if stale == 1 else f"{stale} proved rules are"
    return [f"{rules} not used: superopt has changed since; superopt library verify proves anew"]
