"""Shorten equations for display: a bilinear algorithm by its name in place of its matrices."""

from __future__ import annotations

import math
import re

_NUMBER = r"-?\d+(?:/\d+)?"
_ROW = rf"\({_NUMBER}(?:, {_NUMBER})*,?\)"
_MATRIX = rf"(\({_ROW}(?:, {_ROW})*,?\))"
_ALGORITHM = re.compile(rf"\({_MATRIX}, {_MATRIX}, {_MATRIX}\)")


def abbreviated(text: str) -> str:
    """The text with ``F(m,r)`` in place of the three matrices of each algorithm for m outputs of a filter of
    r taps, and ``NxKxM:p`` for the product of an N x K and a K x M matrix by p multiplications. The rest is
    unchanged, as are matrices of shapes that no algorithm has. Algorithms that differ only in their numbers
    get the same name, so the result is for display and cannot be parsed."""
    return _ALGORITHM.sub(_name, text)


def _name(algorithm: re.Match[str]) -> str:
    left, right, result = map(_row_lengths, algorithm.groups())
    reads, taps, outputs = left[0], right[0], result[0]
    if not all(rows == [rows[0]] * len(left) for rows in (left, right, result)):
        return algorithm[0]
    if reads == outputs + taps - 1:
        return f"F({outputs},{taps})"
    rows = math.isqrt(reads * outputs // taps) or 1
    inner, columns = reads // rows, outputs // rows
    if (rows * inner, inner * columns, rows * columns) != (reads, taps, outputs):
        return algorithm[0]
    return f"{rows}x{inner}x{columns}:{len(left)}"


def _row_lengths(matrix: str) -> list[int]:
    return [len(re.findall(_NUMBER, row)) for row in re.findall(_ROW, matrix)]


__all__ = ["abbreviated"]
