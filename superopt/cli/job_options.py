"""The options of the main job, declared once for the commands that do it here and those that submit it.

Here an option that is left out has the default of the command, at a service that of the service.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from superopt.choices import OBJECTIVES
from superopt.cli.output import destination
from superopt.errors import InvalidOptionError

OptionalOutputOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        *("--output", "-o"),
        help="The file to write, external data beside it; - is standard output.",
        parser=destination,
        metavar="FILE",
    ),
]
ObjectiveOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help=f"What to minimise: {', '.join(OBJECTIVES)}; with --cluster also training."),
]
TargetOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="The device to optimise for: cpu, cuda, an imported cost profile, or (not for submit) a "
        "profile's file."
    ),
]
SearchOption: TypeAlias = Annotated[
    str | None, typer.Option(help="The search strategy: auto, backtracking, regions or beam.")
]
BudgetOption: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Seconds of wall time for everything, from start to written file."),
]
MaxCandidatesOption: TypeAlias = Annotated[
    int | None, typer.Option(help="End the search after so many candidates.")
]
AlphaOption: TypeAlias = Annotated[
    float | None, typer.Option(help="Explore graphs up to this many times the best cost.")
]
SeedOption: TypeAlias = Annotated[int | None, typer.Option(help="Seed of everything random.")]
ThreadsOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Threads of the runtime; default: all physical cores.")
]
DimOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Price, check and time at this size of an open dimension, as in batch=8; `superopt inspect` "
        "lists them."
    ),
]
ToleranceOption: TypeAlias = Annotated[
    float | None, typer.Option(help="Allowed beyond the original's own error.")
]
KeepOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Leave the node of this name as it is.")
]
ExcludeRuleOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Do not use the rule with this id.")
]
ClusterOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Plan for these devices: a description's file, or a known machine as dgx-h100:4."),
]
ReportOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(help="Write a report: .json for machines, .html for people; may be given twice."),
]


def given_options(
    *,
    objective: str | None,
    target: str | None,
    search: str | None,
    budget: float | None,
    max_candidates: int | None,
    alpha: float | None,
    seed: int | None,
    threads: int | None,
    dim: Sequence[str] | None,
    tolerance: float | None,
    keep: Sequence[str] | None,
    exclude_rule: Sequence[str] | None,
) -> dict[str, object]:
    """The options that were given, by the names that HTTP uses; raises InvalidOptionError."""
    options: dict[str, object] = {
        "objective": objective,
        "target": target,
        "search": search,
        "budget": budget,
        "max_candidates": max_candidates,
        "alpha": alpha,
        "seed": seed,
        "threads": threads,
        "dim": parse_dimensions(dim) if dim else None,
        "tolerance": tolerance,
        "keep": list(keep) if keep else None,
        "exclude_rule": list(exclude_rule) if exclude_rule else None,
    }
    return {name: value for name, value in options.items() if value is not None}


def parse_dimensions(texts: Sequence[str]) -> dict[str, int]:
    """The sizes of dynamic dimensions; raises InvalidOptionError for what is not NAME=SIZE."""
    sizes: dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name or re.fullmatch(r"0*[1-9][0-9]{0,17}", size) is None:
            raise InvalidOptionError(f"dim: expected NAME=SIZE, as in batch=8, got {text!r}")
        sizes[name] = int(size)
    return sizes
