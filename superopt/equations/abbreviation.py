"""Shorten equations for display: an algorithm for filters by its name in place of its matrices."""

from __future__ import annotations

import re

_NUMBER = r"-?\d+(?:/\d+)?"
_ROW = rf"\({_NUMBER}(?:, {_NUMBER})*,?\)"
_MATRIX = rf"(\({_ROW}(?:, {_ROW})*,?\))"
_ALGORITHM = re.compile(rf"\({_MATRIX}, {_MATRIX}, {_MATRIX}\)")


def abbreviated(text: str) -> str:
    """The text with ``F(m,r)`` in place of the three matrices of each algorithm for m outputs of a filter of
    r taps. The rest is unchanged, as are matrices of shapes that no algorithm has. Algorithms that differ
    only in their numbers get the same name, so the result is for display and cannot be parsed."""
    return _ALGORITHM.sub(_name, text)


def _name(algorithm: re.Match[str]) -> str:
    left, right, result = map(_row_lengths, algorithm.groups())
    reads, taps, outputs = left[0], right[0], result[0]
    equal = all(rows == [rows[0]] * len(left) for rows in (left, right, result))
    return f"F({outputs},{taps})" if equal and reads == outputs + taps - 1 else algorithm[0]


def _row_lengths(matrix: str) -> list[int]:
    return [len(re.findall(_NUMBER, row)) for row in re.findall(_ROW, matrix)]


__all__ = ["abbreviated"]
