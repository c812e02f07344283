"""Command superopt library algorithms: discovers filters and matrix products with fewer multiplications."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.output import DatabaseOption, JsonOption, Output
from superopt.cli.progress import described
from superopt.errors import InvalidOptionError

if TYPE_CHECKING:
    from superopt.journeys.library.bilinear import Discovered

_FILTERS = ((2, 3), (4, 3), (6, 3), (4, 5), (6, 5), (4, 7), (6, 7), (4, 4), (5, 5), (6, 6))
_PRODUCTS = ((2, 2, 2), (2, 2, 3))
_STORED_PRODUCTS = ((2, 2, 2),)


def register(library: typer.Typer) -> None:
    """Adds the command to those of ``superopt library``."""
    library.command("algorithms")(algorithms)


def algorithms(
    filter_: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="M,R", help="M outputs of a filter of R taps; may be repeated."),
    ] = None,
    product: Annotated[
        list[str] | None,
        typer.Option(
            "--product",
            metavar="N,K,M",
            help="Product of an N x K and a K x M matrix; may be repeated.",
        ),
    ] = None,
    flips: Annotated[
        int, typer.Option(min=1, help="Length of the random walks for each product.")
    ] = 20_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random walks.")] = 0,
    output_file: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the algorithms as JSON lines."),
    ] = None,
    check: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Only check that each algorithm of a file is exact.")
    ] = None,
    store: Annotated[
        bool,
        typer.Option("--store", help="Store rules that use the algorithms as candidates for verification."),
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Discover exact algorithms with fewer multiplications than the definition, for filters and for products
    of matrices.

    Without --filter or --product: some of each; with --store, those of the shipped library.
    """
    from superopt.files import write_atomically
    from superopt.journeys.library import bilinear
    from superopt.substitution_db import open_database

    output = Output(as_json)
    if check is not None:
        count = len(bilinear.read(check))
        output.document({"checked": count})
        output.line(f"{check}: {count} algorithms compute their maps, coefficient by coefficient")
        return
    every = filter_ is None and product is None
    filters = _FILTERS if every else _pairs(filter_ or [])
    if store:
        products = _STORED_PRODUCTS if every else _triples(product or [])
        with open_database(database) as opened, described("searching"):
            added = bilinear.store_rules(opened, filters, products, flips=flips, seed=seed)
        output.document({"new": added.new, "known": added.known})
        output.line(f"{added.new} new candidates, {added.known} known; next: superopt library verify")
        return
    found: list[Discovered] = []
    with described("searching") as show:
        for outputs, taps in filters:
            show(f"F({outputs},{taps})")
            found += bilinear.discover_filter(outputs, taps)
        for sizes in _PRODUCTS if every else _triples(product or []):
            name = "x".join(map(str, sizes))

            def report(taken: int, best: int, name: str = name) -> None:
                show(f"{name}: {best} multiplications after {taken:,} flips")

            found.append(bilinear.discover_product(sizes, flips=flips, seed=seed, progress=report))
    if output_file is not None:
        write_atomically(output_file, bilinear.written(each.record for each in found).encode())
    output.document({"algorithms": [each.document() for each in found]})
    output.table(_HEADINGS, [_row(each) for each in found])


_HEADINGS = (
    *("map", "multiplications", "definition", "known", "error", "worst error"),
    *("additions", "scalings", "shifts", "seconds", "found by"),
)


def _row(each: Discovered) -> tuple[str | int | float, ...]:
    cost = each.cost
    return (
        each.record.map.name,
        each.record.algorithm.multiplications,
        each.record.map.schoolbook,
        each.known or "-",
        round(each.amplification, 2),
        round(each.worst_amplification, 2),
        *(cost.additions, cost.multiplications, cost.shifts),
        round(each.seconds, 1),
        each.record.provenance,
    )


def _pairs(texts: list[str]) -> list[tuple[int, int]]:
    return [(outputs, taps) for outputs, taps in (_sizes("--filter", text, 2) for text in texts)]


def _triples(texts: list[str]) -> list[tuple[int, int, int]]:
    return [(n, k, m) for n, k, m in (_sizes("--product", text, 3) for text in texts)]


def _sizes(option: str, text: str, count: int) -> list[int]:
    parts = text.split(",")
    if len(parts) != count or not all(part.strip().isdecimal() for part in parts):
        raise InvalidOptionError(f"{option} {text}: expected {count} whole numbers separated by commas")
    return [int(part) for part in parts]


__all__ = ["register"]
