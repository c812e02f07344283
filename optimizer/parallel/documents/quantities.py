"""Parse quantities with units in cluster descriptions, exactly; each kind of quantity has its own units."""

from __future__ import annotations

import enum
import math
import re
from fractions import Fraction

_NUMBER = re.compile(r"(\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,2})?)\s*(\S.*)?")

_SIZES = {
    "B": Fraction(1),
    **{f"{prefix}B": Fraction(1000) ** (power + 1) for power, prefix in enumerate("kMGTP")},
    **{f"{prefix}iB": Fraction(1024) ** (power + 1) for power, prefix in enumerate("KMGTP")},
}
_BITS = {
    f"{prefix}{bit}/s": Fraction(1000) ** power / 8
    for power, prefix in enumerate(("", "k", "M", "G", "T"))
    for bit in ("b", "bit")
}


class Quantity(enum.Enum):
    """A kind of quantity: an example of its notation, and its units in terms of the base unit."""

    SIZE = ("80 GiB", _SIZES)
    BANDWIDTH = ("450 GB/s", {f"{unit}/s": factor for unit, factor in _SIZES.items()} | _BITS)
    OPERATIONS = (
        "989 TFLOP/s",
        {
            f"{prefix}FLOP/s": Fraction(1000) ** power
            for power, prefix in enumerate(("", "k", "M", "G", "T", "P"))
        },
    )
    TIME = (
        "2 us",
        {
            "ns": Fraction(1, 1000),
            "us": Fraction(1),
            "µs": Fraction(1),
            "ms": Fraction(1000),
            "s": Fraction(1_000_000),
        },
    )

    def __init__(self, example: str, units: dict[str, Fraction]) -> None:
        self.example = example
        self.units = units

    @property
    def description(self) -> str:
        """Description of the expected notation."""
        return (
            f"a {self.name.lower()} such as {self.example}"
            if self is not Quantity.OPERATIONS
            else (f"a rate of operations such as {self.example}")
        )

    def parse(self, text: str) -> Fraction:
        """Bytes, bytes per second, operations per second or microseconds; raises ValueError stating what was
        expected."""
        found = _NUMBER.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"expected {self.description}")
        number, unit = found.groups()
        if unit is None:
            raise ValueError(f"expected {self.description}, with its unit")
        if unit not in self.units:
            raise ValueError(f"expected {self.description}, in one of {', '.join(self.units)}")
        return Fraction(number) * self.units[unit]


_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def size_text(count: int) -> str:
    """Bytes as readable text."""
    for unit, factor in _UNITS:
        if count >= factor:
            return f"{count / factor:.2f} {unit}"
    return f"{count} bytes"


def sufficient_size_text(count: int) -> str:
    """Bytes as readable text, rounded up, so that as many are enough."""
    step = next((factor / 100 for _, factor in _UNITS if count >= factor), 1.0)
    return size_text(math.ceil(math.ceil(count / step) * step))
