"""Commands superopt library select and compare: choose the rules to ship, compare libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.output import DatabaseOption, JsonOption, NoDatabaseOption, Output, several
from superopt.cli.progress import described
from superopt.cli.resource_usage import ResourceUsage
from superopt.errors import InvalidOptionError

if TYPE_CHECKING:
    from superopt.journeys.library.comparison import Comparison
    from superopt.journeys.library.selection import Selected


def register(library: typer.Typer) -> None:
    """Adds the commands to those of ``superopt library``."""
    library.command("select")(select)
    library.command("compare")(compare)


def select(
    graph: Annotated[
        list[str] | None, typer.Option(help="Search only this network or micrograph (default: all).")
    ] = None,
    candidates: Annotated[int, typer.Option(min=1, help="Number of graphs per search.")] = 5000,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose which verified rules ship, by their gain and whether other rules derive them; record the
    reasons.

    Reproducible on every machine: costs are analytic and searches are limited by candidates. `library export
    --selected` writes the chosen rules.
    """
    from superopt.journeys.library.selection import select as choose
    from superopt.substitution_db import RuleFilter, RuleStatus, open_database
    from superopt.substitution_db.rules.currency import current
    from superopt.substitution_db.rules.statistics import kinds_of_selection as kinds

    output = Output(as_json)
    usage = ResourceUsage()
    names = _known(graph) if graph else None
    with open_database(database) as opened, described("selecting") as show:
        opened.rules.refresh(current())
        verified = opened.rules.list(RuleFilter(status=RuleStatus.VERIFIED))
        selected = choose(verified, names=names, candidates=candidates, progress=show)
        opened.rules.record_selections(selected.choices)
    reasons = kinds(selected.choices.values())
    ships = sum(choice.ships for choice in selected.choices.values())
    output.document(
        {
            "rules": len(selected.choices),
            "ships": ships,
            "reasons": [{"ships": kind.ships, "why": kind.why, "rules": count} for kind, count in reasons],
            "searches": _searches(selected),
            **usage.document(),
        }
    )
    output.table(
        ("graph", "us before", "with shipped rules", "with all rules"),
        [
            (name, round(trial.before, 1), round(trial.after, 1), round(selected.everything[name].after, 1))
            for name, trial in selected.shipped.items()
        ],
    )
    output.line()
    output.table(
        ("ships", "because", "rules"),
        [("yes" if kind.ships else "no", kind.why, count) for kind, count in reasons],
    )
    output.line(
        f"\n{ships} of {len(selected.choices)} verified rules ship; {usage}; "
        "next: superopt library export --selected"
    )


def compare(
    before: Annotated[Path, typer.Argument(help="An exported file of rules.")],
    after: Annotated[Path, typer.Argument(help="Another one.")],
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two files of rules, ignoring times. Exit 0 if they are equal, else 1."""
    from superopt.journeys.library.comparison import compare as compare_files

    del database
    output = Output(as_json)
    found = compare_files(before, after)
    output.document(
        {
            "same": found.same,
            "lost": [{"id": rule, "equation": equation} for rule, equation in found.lost.items()],
            "gained": [{"id": rule, "equation": equation} for rule, equation in found.gained.items()],
            "changed": [
                {"id": rule.id, "equation": rule.equation, "what": list(rule.what)} for rule in found.changed
            ],
        }
    )
    _print(found, output)
    raise typer.Exit(0 if found.same else 1)


def _print(found: Comparison, output: Output) -> None:
    for heading, rules in (("lost", found.lost), ("gained", found.gained)):
        for rule, equation in rules.items():
            output.line(f"{heading}  {rule}  {equation}")
    for changed in found.changed:
        output.line(f"changed  {changed.id}  {changed.equation}")
        for what in changed.what:
            output.line(f"         {what}")
    output.line(
        f"{several(len(found.lost), 'rule')} lost, {len(found.gained)} gained, {len(found.changed)} changed"
        if not found.same
        else "the same rules with the same proofs"
    )


def _known(names: list[str]) -> tuple[str, ...]:
    from superopt.journeys.library.trials import graphs

    for name in names:
        if name not in graphs():
            raise InvalidOptionError(f"graph: expected one of {', '.join(graphs())}, got {name!r}")
    return tuple(names)


def _searches(selected: Selected) -> list[dict[str, object]]:
    return [
        {
            "graph": name,
            "before": trial.before,
            "with_what_ships": trial.after,
            "with_every_rule": selected.everything[name].after,
            "rules": sorted(trial.rules),
        }
        for name, trial in selected.shipped.items()
    ]
