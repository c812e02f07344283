"""superopt prove and gate: what is true, from which axioms, and whether the library still is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from axioms import load_axioms
from substitution_db import open_database
from substitution_db.currency import current
from substitution_db.gate import gate_database, gate_files
from superopt.cli.axiom_commands import print_axioms
from superopt.cli.output import DatabaseOption, JsonOption, Output
from superopt.cli.progress import counted
from superopt.equations import format_equation, parse_equation
from verifier import Status, verify

NO = 1
UNDECIDED = 3


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("prove")(prove)
    app.command("gate")(gate)


def prove(
    equation: Annotated[str, typer.Argument(metavar='"LHS => RHS"', help="The rule to prove.")],
    as_json: JsonOption = False,
) -> int:
    """Prove one rule: exit 0 proved, 1 refuted (with a counterexample), 3 unproved."""
    output = Output(as_json)
    parsed = parse_equation(equation)
    verdict = verify(parsed, load_axioms())
    output.document(
        {
            "equation": format_equation(parsed),
            "verdict": {"verified": "proved"}.get(verdict.status, str(verdict.status)),
            "prover": verdict.prover,
            "version": verdict.version,
            "axioms_used": list(verdict.axioms_used),
            "milliseconds": verdict.milliseconds,
            "validated_shapes": list(verdict.validated_shapes),
            "counterexample": verdict.counterexample,
            "reason": verdict.reason,
        }
    )
    output.line(format_equation(parsed))
    match verdict.status:
        case Status.VERIFIED:
            output.line(
                f"proved in {verdict.milliseconds:.0f} ms by {verdict.prover} {verdict.version}, from:"
            )
            print_axioms([load_axioms().by_name[name] for name in verdict.axioms_used], output)
            output.line(f"validated on: {'; '.join(verdict.validated_shapes)}")
            return 0
        case Status.REFUTED:
            output.line(f"refuted: {verdict.counterexample}")
            return NO
        case _:
            output.line(f"unproved: {verdict.reason}")
            return UNDECIDED


def gate(
    files: Annotated[list[Path] | None, typer.Argument(help="Rule files; without any, the library.")] = None,
    database: DatabaseOption = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that prove the rules of files anew.")] = 2,
    as_json: JsonOption = False,
) -> int:
    """Exit 0 if every rule is verified under the current axioms, operators and verifier, else 1.

    Rules of files are proved anew, whatever the files say.
    """
    output = Output(as_json)
    if files:
        with counted("proving") as progress:
            result = gate_files(files, current(), jobs=jobs, progress=progress)
    else:
        with open_database(database) as opened:
            result = gate_database(opened, current())
    output.document(
        {
            "rules": result.rules,
            "offenders": [{"id": o.id, "equation": o.equation, "reason": o.reason} for o in result.offenders],
        }
    )
    for offender in result.offenders:
        output.line(f"{offender.id}  {offender.equation}\n    {offender.reason}")
    output.line(f"{result.rules - len(result.offenders)} of {result.rules} rules pass")
    if not result.rules:
        output.line("there are no rules: a gate without rules does not pass")
    return 0 if result.passed and result.rules else NO
