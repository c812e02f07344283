"""superopt axioms: the axioms are listed and checked against the meaning of their operators."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import Annotated

import typer

from axioms import AxiomSet, load_axioms
from superopt.cli.output import JsonOption, Output
from superopt.cli.progress import counted
from superopt.equations import format_equation
from superopt.ir import Equation
from verifier.axiom_validation import validate_axioms

NO = 1

app = typer.Typer(help="The axioms that proofs rest on.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.add_typer(app, name="axioms")


@app.command("list")
def list_axioms(as_json: JsonOption = False) -> None:
    """List all axioms by family, those with one reason together below it."""
    output = Output(as_json)
    axioms = load_axioms()
    output.document(
        [
            {
                "name": axiom.name,
                "family": axioms.families[axiom.name],
                "reason": axioms.reasons[axiom.name],
                "ring": axiom.name in axioms.ring,
                "lemma": axiom.name in axioms.lemmas,
                "equation": format_equation(axiom),
            }
            for axiom in axioms.equations
        ]
    )
    for family, members in groupby(axioms.equations, lambda axiom: axioms.families[axiom.name]):
        output.line(f"\n{family}")
        for heading, block in groupby(members, partial(_heading, axioms)):
            output.line(f"\n  # {heading}")
            print_axioms(list(block), output)
    output.line(
        f"\n{len(axioms.equations)} axioms, {len(axioms.ring)} of them in every commutative ring, "
        f"{len(axioms.lemmas)} lemmas that follow from others"
    )


def _heading(axioms: AxiomSet, axiom: Equation) -> str:
    marks = [mark for mark, names in (("ring", axioms.ring), ("lemma", axioms.lemmas)) if axiom.name in names]
    return f"{', '.join(marks)}: {axioms.reasons[axiom.name]}" if marks else axioms.reasons[axiom.name]


@app.command("validate")
def validate(
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2, as_json: JsonOption = False
) -> int:
    """Check every axiom against the meaning of its operators: exit 0 when all hold, 1 when one does not."""
    output = Output(as_json)
    with counted("validating axioms") as progress:
        results = list(validate_axioms(load_axioms().equations, jobs=jobs, progress=progress))
    wrong = [result for result in results if not result.valid]
    output.document(
        {
            "axioms": len(results),
            "instances": sum(result.instances for result in results),
            "symbolic": sum(result.symbolic for result in results),
            "invalid": [{"name": result.name, "reason": result.reason} for result in wrong],
        }
    )
    for result in wrong:
        output.line(f"{result.name}: {result.reason}")
    evaluated, symbolic = sum(r.instances for r in results), sum(r.symbolic for r in results)
    output.line(
        f"{len(results) - len(wrong)} of {len(results)} axioms hold: {evaluated} instances by exact "
        f"evaluation, {symbolic} for all real numbers"
    )
    return NO if wrong else 0


def print_axioms(axioms: list[Equation], output: Output) -> None:
    """Names and equations in two columns."""
    width = max((len(axiom.name) for axiom in axioms), default=0)
    for axiom in axioms:
        output.line(f"  {axiom.name:<{width}}  {format_equation(axiom)}")
