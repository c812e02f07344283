"""Commands superopt library stats, list, show and document."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.choices import StatusName
from superopt.cli.logs import warned
from superopt.cli.output import DatabaseOption, JsonOption, NoDatabaseOption, Output, destination, several
from superopt.errors import InvalidOptionError
from superopt.files import is_stream, write_atomically

if TYPE_CHECKING:
    from superopt.substitution_db import Rule
    from superopt.substitution_db.rules.statistics import RuleStatistics


def register(library: typer.Typer) -> None:
    """Adds the commands to those of ``superopt library``."""
    library.command("stats")(stats)
    library.command("list")(list_rules)
    library.command("show")(show)
    library.command("document")(document)


def stats(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Count rules by state, preset, size and operator, and verified ones by kind of proof."""
    from superopt.substitution_db import open_or_temporary
    from superopt.substitution_db.rules.currency import current

    output = Output(as_json)
    with warned(), open_or_temporary(database) as opened:
        opened.rules.refresh(current())
        statistics = opened.rules.statistics()
    output.document(_document(statistics))
    output.pairs({str(status): count for status, count in statistics.by_status.items()})
    output.line("\nof the verified rules:")
    milliseconds = statistics.median_milliseconds
    output.pairs(
        {
            "with a condition": statistics.conditional,
            "with a certificate that replays for all sizes": statistics.replayed,
            "confirmed by a second prover": statistics.confirmed,
            "median proof time": "none" if milliseconds is None else f"{milliseconds:.0f} ms",
        }
    )
    sizes = sorted({size for count in statistics.by_origin for size in count.by_size})
    output.line("\nverified rules by origin and number of source operators:")
    output.table(
        ("found by", *map(str, sizes), "rules", "with a condition"),
        [
            (str(c.origin), *(c.by_size.get(size, 0) for size in sizes), c.rules, c.conditional)
            for c in statistics.by_origin
        ],
    )
    output.line()
    ranked = sorted(statistics.verified_by_operator.items(), key=lambda item: (-item[1], item[0]))
    output.table(("operator", "verified rules"), ranked)


def _document(statistics: RuleStatistics) -> dict[str, object]:
    return {
        "by_status": {str(status): count for status, count in statistics.by_status.items()},
        "conditional": statistics.conditional,
        "replayed": statistics.replayed,
        "confirmed": statistics.confirmed,
        "median_milliseconds": statistics.median_milliseconds,
        "verified_by_origin": [
            {
                "preset": count.origin.preset,
                "max_ops": count.origin.max_ops,
                "by_source_operators": {str(size): rules for size, rules in count.by_size.items()},
                "rules": count.rules,
                "conditional": count.conditional,
            }
            for count in statistics.by_origin
        ],
        "verified_by_operator": dict(statistics.verified_by_operator),
        "verified_by_family": dict(statistics.verified_by_family),
    }


def list_rules(
    status: Annotated[StatusName | None, typer.Option(help="Only rules with this status.")] = None,
    operator: Annotated[str | None, typer.Option(help="Only rules with this operator.")] = None,
    text: Annotated[
        str | None, typer.Option(help="Only rules with this text in the equation, as in 'relu(' or 'F(4,3)'.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Only rules found by this preset.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of rules.")] = None,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Only rules after the rule with this id.")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List rules, smallest first; with the reason for those that are not verified."""
    from superopt.substitution_db import RuleFilter, RuleStatus, open_or_temporary
    from superopt.substitution_db.rules.currency import current

    output = Output(as_json)
    if operator is not None:
        _require_operator(operator)
    chosen = RuleFilter(status=status and RuleStatus(status), operator=operator, text=text, preset=preset)
    with warned(), open_or_temporary(database) as opened:
        opened.rules.refresh(current())
        rules = opened.rules.list(chosen, after=after, limit=limit)
    output.document(
        [
            {
                "id": rule.id,
                "status": str(rule.status),
                "equation": rule.equation,
                "provenance": rule.provenance,
                "why_not": _why_not(rule),
                "ships": None if rule.selection is None else rule.selection.ships,
                "why": None if rule.selection is None else rule.selection.why,
            }
            for rule in rules
        ]
    )
    reasons = tuple(map(_why_not, rules))
    headings = ("id", "status", "equation", *(("why not",) if any(reasons) else ()))
    rows = [(r.id, str(r.status), r.equation, why) for r, why in zip(rules, reasons, strict=True)]
    output.table(headings, [row[: len(headings)] for row in rows])
    if limit is not None and len(rules) == limit:
        output.line(f"\nmore: --after {rules[-1].id}")


def _require_operator(name: str) -> None:
    from superopt.ops.base import OPERATORS

    if name not in OPERATORS:
        near = get_close_matches(name, OPERATORS) or sorted(OPERATORS)
        raise InvalidOptionError(f"operator: there is no {name!r}; expected one like {', '.join(near)}")


def _why_not(rule: Rule) -> str:
    """The evidence against a rule, else the counterexample or reason if it is not verified."""
    from superopt.substitution_db import RuleStatus

    if rule.evidence:
        return "; ".join(map(str, rule.evidence))
    if rule.proof is None or rule.status is RuleStatus.VERIFIED:
        return ""
    return rule.proof.counterexample or rule.proof.reason


def show(
    rule: Annotated[str, typer.Argument(metavar="ID", help="The rule's id.")],
    svg: Annotated[
        Path | None,
        typer.Option(
            help="Draw the rule into this file, as SVG; - is standard output.",
            parser=destination,
            metavar="FILE",
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a rule: equation, picture, proof, axioms used, counterexample."""
    from superopt.cli.views.rule import print_rule, rule_document
    from superopt.equations import drawing, parse_equation
    from superopt.substitution_db import open_or_temporary
    from superopt.substitution_db.rules.currency import current

    output = Output.beside(as_json, svg)
    with warned(), open_or_temporary(database) as opened:
        opened.rules.refresh(current())
        found = opened.rules.get(rule)
    if found is None:
        raise InvalidOptionError(f"there is no rule {rule}; `superopt library list` shows all")
    if svg is not None:
        write_atomically(svg, drawing(parse_equation(found.equation)).encode())
    output.document(rule_document(found))
    print_rule(found, output)
    if svg is not None:
        output.line(f"\ndrawn: {svg}")


def document(
    library: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="File of exported rules (default: the shipped library)."),
    ] = None,
    out: Annotated[Path, typer.Option("--output", "-o", help="The Markdown file to write.")] = Path(
        "docs/library.md"
    ),
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a Markdown page about a library: counts, and the most profitable rules with drawings."""
    from superopt.substitution_db.rules.shipped import shipped_library

    del database
    from superopt.journeys.library.gallery import (  # imports onnx, which the other commands do not need
        library_page,
        write_page,
    )

    output = Output(as_json)
    if out.stem == "-" or is_stream(out):
        raise InvalidOptionError(f"output: expected a file path (pictures are written beside it), got {out}")
    page = library_page(library or shipped_library(), out.stem)
    write_page(page, out)
    output.document({"path": str(out), "pictures": len(page.pictures)})
    output.line(f"{out}: {several(len(page.pictures), 'rule')} drawn in {out.with_suffix('')}/")
