"""Command superopt library coverage: classifies the rules of another project's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.choices import FormatName
from superopt.cli.output import DatabaseOption, JsonOption, Output, several
from superopt.cli.progress import counted

if TYPE_CHECKING:
    from superopt.journeys.library.peers.coverage import Covered

FormatOption = Annotated[
    FormatName | None,
    typer.Option(
        "--format", help="Default: by the file's ending (.jsonl, .pb for taso, .json for flexflow)."
    ),
]


def register(library: typer.Typer) -> None:
    """Adds the command to those of ``superopt library``."""
    library.command("coverage")(coverage)


def coverage(
    file: Annotated[Path, typer.Argument(help="The file of rules.")],
    file_format: FormatOption = None,
    max_steps: Annotated[
        int, typer.Option(min=0, max=8, help="Maximum number of library rewrites in a derivation.")
    ] = 3,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes.")] = 2,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Classify each rule of a file as known, derivable, proved, conditional, refuted or malformed."""
    from superopt.journeys.library.peers import PeerFormat, format_of, read_rules
    from superopt.journeys.library.peers.coverage import counts
    from superopt.journeys.library.peers.coverage import coverage as cover
    from superopt.rewriting.derivability import Bounds
    from superopt.substitution_db import RuleFilter, RuleStatus, open_database
    from superopt.substitution_db.rules.currency import current

    output = Output(as_json)
    chosen = PeerFormat(file_format) if file_format else format_of(file)
    rules = read_rules(file, chosen)
    with open_database(database) as opened:
        opened.rules.refresh(current())
        library = [rule.equation for rule in opened.rules.list(RuleFilter(status=RuleStatus.VERIFIED))]
    bounds = replace(Bounds(), steps=max_steps)
    with counted("judging") as progress:
        answers = cover(rules, library, bounds=bounds, jobs=jobs, progress=progress)
    totals = counts(answers)
    output.document(
        {
            "file": str(file),
            "format": str(chosen),
            "counts": totals,
            "rules": [_document(answer) for answer in answers],
        }
    )
    for answer in answers:
        _print(answer, output)
    _print_totals(totals, output)


def _document(answer: Covered) -> Mapping[str, object]:
    return {
        "index": answer.index,
        "name": answer.name,
        "verdict": str(answer.verdict),
        "known": answer.known,
        "derivable_steps": answer.derivable_steps,
        "reason": answer.reason,
        "equation": answer.equation,
    }


def _print(answer: Covered, output: Output) -> None:
    from superopt.journeys.library.peers.coverage import Answer

    library = ""
    if answer.known:
        library = "known"
    elif answer.derivable_steps is not None:
        library = f"derivable in {answer.derivable_steps}"
    text = answer.equation or answer.reason
    output.line(f"{answer.name:<12} {answer.verdict:<12} {library:<15} {text}".rstrip())
    if answer.equation and answer.verdict is not Answer.PROVED:
        output.line(f"{'':<42}{answer.reason}")


def _print_totals(totals: Mapping[str, int], output: Output) -> None:
    from superopt.journeys.library.peers.coverage import Answer

    verdicts = ", ".join(f"{totals[verdict]} {verdict}" for verdict in Answer)
    output.line(f"\n{several(totals['rules'], 'rule')}: {verdicts}")
    output.line(
        f"{totals['known']} known, {totals['derivable']} derivable from the library (including the known)"
    )
