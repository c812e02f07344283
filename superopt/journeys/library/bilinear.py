"""Discover bilinear algorithms, and write and read them as JSON lines."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from superopt.defects import first_defect
from superopt.equations import spelled
from superopt.errors import InvalidFileError, InvalidOptionError, SuperoptError
from superopt.generator.bilinear import (
    BilinearAlgorithm,
    BilinearMap,
    TransformCost,
    amplification,
    filter_map,
    filter_rules,
    filters,
    product_map,
    product_rules,
    products,
    reduced,
    transform_cost,
    worst_amplification,
)
from superopt.generator.bilinear.flips import Progress
from superopt.generator.bilinear.maps import Coefficients
from superopt.substitution_db.database import Database
from superopt.substitution_db.rules.exchange import numbered_lines
from superopt.substitution_db.rules.repository import CandidateRule
from superopt.substitution_db.store.records import Added

Sizes: TypeAlias = tuple[int, ...]
Matrix: TypeAlias = tuple[tuple[str, ...], ...]

LARGEST = 16
"""The largest size of a map."""

KNOWN_PRODUCTS = {
    (2, 2, 2): 7,
    (2, 2, 3): 11,
    (2, 2, 4): 14,
    (2, 2, 5): 18,
    (2, 3, 3): 15,
    (2, 3, 4): 20,
    (2, 3, 5): 25,
    (2, 4, 4): 26,
    (3, 3, 3): 23,
    (3, 3, 4): 29,
}
"""Fewest multiplications known for products of matrices, by their sizes in order, over the rational numbers
(Fawzi et al. 2022, Discovering faster matrix multiplication algorithms with reinforcement learning)."""


class AlgorithmRecord(BaseModel):
    """A line of a file of algorithms. Coefficients are exact, as text: ``-1``, ``3/4``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    kind: Literal["filter", "product"]
    sizes: Sizes
    left: Matrix
    right: Matrix
    result: Matrix
    provenance: str

    @property
    def map(self) -> BilinearMap:
        """The map that it claims to compute; raises InvalidOptionError for sizes that make none."""
        return map_of(self.kind, self.sizes)

    @property
    def algorithm(self) -> BilinearAlgorithm:
        """The matrices as exact numbers; raises ValueError for text that is no number, rows of different
        lengths and matrices with different numbers of rows."""
        if not len(self.left) == len(self.right) == len(self.result):
            raise ValueError("matrices with different numbers of rows")
        return BilinearAlgorithm(*(_matrix(rows) for rows in (self.left, self.right, self.result)))


@dataclass(frozen=True)
class Discovered:
    """An algorithm that was found, with the processor time that the search for its map took."""

    record: AlgorithmRecord
    seconds: float
    known: int

    @property
    def amplification(self) -> float:
        """Typical rounding error relative to that of the definition."""
        return amplification(self.record.algorithm, self.record.map)

    @property
    def worst_amplification(self) -> float:
        """Largest rounding error relative to that of the definition."""
        return worst_amplification(self.record.algorithm, self.record.map)

    @property
    def cost(self) -> TransformCost:
        """The work of the transforms of data and results."""
        return transform_cost(self.record.algorithm)

    def document(self) -> dict[str, object]:
        """For output as JSON."""
        cost = self.cost
        return {
            "map": self.record.map.name,
            "multiplications": self.record.algorithm.multiplications,
            "definition": self.record.map.schoolbook,
            "known": self.known or None,
            "amplification": round(self.amplification, 4),
            "worst_amplification": round(self.worst_amplification, 4),
            "transform": {
                "additions": cost.additions,
                "multiplications": cost.multiplications,
                "shifts": cost.shifts,
            },
            "seconds": round(self.seconds, 2),
            "provenance": self.record.provenance,
        }


def map_of(kind: Literal["filter", "product"], sizes: Sizes) -> BilinearMap:
    """The map of these sizes: outputs and taps of a filter; rows, inner and columns of a product.

    Raises InvalidOptionError for another number of sizes, and sizes below 1 or above ``LARGEST``.
    """
    if max(sizes, default=0) > LARGEST:
        raise InvalidOptionError(f"a {kind}: expected sizes of at most {LARGEST}, got {max(sizes)}")
    match kind, sizes:
        case "filter", (outputs, taps):
            return filter_map(outputs, taps)
        case "product", (rows, inner, columns):
            return product_map(rows, inner, columns)
        case _:
            raise InvalidFileError(
                f"a {kind}: expected {2 if kind == 'filter' else 3} sizes, got {len(sizes)}"
            )


def discover_filter(outputs: int, taps: int) -> list[Discovered]:
    """The best algorithms for F(outputs, taps), the most accurate first. Fewer than outputs + taps - 1
    multiplications are impossible (Winograd 1980).

    Raises InvalidOptionError for sizes below 1 or above ``LARGEST``.
    """
    map_of("filter", (outputs, taps))
    began = time.process_time()
    found = filters(outputs, taps)
    seconds = time.process_time() - began
    return [
        Discovered(
            _record("filter", (outputs, taps), each.algorithm, f"points {_points(each.points)}"),
            seconds,
            outputs + taps - 1,
        )
        for each in found
    ]


def store_rules(
    database: Database,
    filters_: Iterable[tuple[int, int]],
    products_: Iterable[tuple[int, int, int]] = (),
    *,
    flips: int = 20_000_000,
    seed: int = 0,
) -> Added:
    """Stores as candidates the rules that use the most accurate algorithm of each filter (outputs, taps), and
    for each product (rows, inner, columns) the most accurate one and those with fewer additions.

    Raises InvalidOptionError for sizes below 1 or above ``LARGEST``.
    """
    rules = [rule for sizes in filters_ for rule in filter_rules(filters(*sizes)[0])]
    for sizes in products_:
        map_of("product", sizes)
        rules += product_rules(products(sizes, target=_known(sizes), flips=flips, seed=seed))
    return database.rules.add_candidates(
        CandidateRule(spelled(rule.equation), f"bilinear, {rule.provenance}") for rule in rules
    )


def discover_product(
    sizes: tuple[int, int, int], *, flips: int, seed: int, progress: Progress | None = None
) -> Discovered:
    """The algorithm with the fewest multiplications for a product of matrices that random walks of so many
    flips find; they end where the fewest known are reached.

    Raises InvalidOptionError for sizes below 1 or above ``LARGEST``.
    """
    known = _known(sizes)
    wanted = map_of("product", sizes)
    began = time.process_time()
    found = reduced(wanted, target=known, flips=flips, seed=seed, progress=progress)
    provenance = f"flips {found.flips}, seed {seed}"
    record = _record("product", sizes, found.algorithm, provenance)
    return Discovered(record, time.process_time() - began, known)


def _known(sizes: tuple[int, int, int]) -> int:
    return KNOWN_PRODUCTS.get((min(sizes), sorted(sizes)[1], max(sizes)), 0)


def written(records: Iterable[AlgorithmRecord]) -> str:
    """The records as JSON lines."""
    return "".join(f"{json.dumps(record.model_dump())}\n" for record in records)


def read(path: Path) -> list[AlgorithmRecord]:
    """The records of a file, each checked to compute its map coefficient by coefficient.

    Raises InvalidFileError with the line otherwise, and where the file cannot be read.
    """
    return [_checked(path, number, line) for number, line in numbered_lines(path)]


def _checked(path: Path, number: int, line: str) -> AlgorithmRecord:
    try:
        record = AlgorithmRecord.model_validate_json(line)
        computes = record.algorithm.computes(record.map)
    except ValidationError as error:
        raise InvalidFileError(f"{path}:{number}: {first_defect(error, 'line')}") from error
    except (ValueError, ZeroDivisionError, SuperoptError) as error:
        raise InvalidFileError(f"{path}:{number}: no bilinear algorithm: {error}") from error
    if not computes:
        raise InvalidFileError(f"{path}:{number}: the matrices do not compute {record.map.name}")
    return record


def _record(
    kind: Literal["filter", "product"], sizes: Sizes, algorithm: BilinearAlgorithm, provenance: str
) -> AlgorithmRecord:
    left, right, result = map(_text, (algorithm.left, algorithm.right, algorithm.result))
    return AlgorithmRecord(
        kind=kind, sizes=sizes, left=left, right=right, result=result, provenance=provenance
    )


def _text(matrix: Coefficients) -> Matrix:
    return tuple(tuple(map(str, row)) for row in matrix)


def _matrix(rows: Matrix) -> Coefficients:
    if not rows or len({len(row) for row in rows}) != 1:
        raise ValueError("rows of different lengths")
    return np.array([[Fraction(entry) for entry in row] for row in rows], object)


def _points(points: Sequence[Fraction | None]) -> str:
    return ", ".join("infinity" if point is None else str(point) for point in points)


__all__ = [
    "KNOWN_PRODUCTS",
    "LARGEST",
    "AlgorithmRecord",
    "Discovered",
    "discover_filter",
    "discover_product",
    "map_of",
    "read",
    "store_rules",
    "written",
]
