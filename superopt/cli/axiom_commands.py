"""Commands superopt axioms list and validate."""

from __future__ import annotations

import time
from functools import partial
from itertools import groupby
from typing import Annotated

import typer

from superopt.axioms import AxiomSet, load_axioms
from superopt.cli.output import JsonOption, NoDatabaseOption, Output
from superopt.cli.progress import estimated
from superopt.equations import format_equation
from superopt.errors import InvalidOptionError
from superopt.instances.values import Bound
from superopt.ir import Equation
from superopt.verifier.axiom_checks.validation import (
    NOTHING_EVALUATED,
    SYMBOLIC_CASES,
    AxiomValidation,
    Thoroughness,
    validate_axioms,
)
from superopt.verifier.content_cache import ContentCache, user_cache

NO = 1

app = typer.Typer(help="The axioms that proofs rest on.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.add_typer(app, name="axioms")


@app.command("list")
def list_axioms(
    family: Annotated[str | None, typer.Option("--family", help="Only the axioms of this file.")] = None,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List all axioms by family, grouped by reason or schema."""
    del database
    output = Output(as_json)
    axioms = load_axioms()
    names = frozenset(chosen_names(axioms, None, family))
    chosen = [axiom for axiom in axioms.equations if axiom.name in names]
    output.document(
        [
            {
                "name": axiom.name,
                "family": axioms.families[axiom.name],
                "reason": axioms.reasons[axiom.name],
                "ring": axiom.name in axioms.ring,
                "lemma": axiom.name in axioms.lemmas,
                "schema": axioms.schemas.get(axiom.name),
                "uncut": axiom.name in axioms.uncut,
                "equation": format_equation(axiom),
            }
            for axiom in chosen
        ]
    )
    for title, members in groupby(chosen, lambda axiom: axioms.families[axiom.name]):
        output.line(f"\n{title}")
        for heading, block in groupby(members, partial(_heading, axioms)):
            output.line(f"\n  # {heading}")
            for schema, instances in groupby(block, lambda axiom: axioms.schemas.get(axiom.name)):
                if schema:
                    output.line(f"  # {schema}")
                print_axioms(list(instances), output)
    output.line(
        f"\n{len(chosen)} axioms, {len(names & axioms.ring)} of them valid in every commutative ring, "
        f"{len(names & axioms.lemmas)} lemmas, "
        f"{len(names & axioms.schemas.keys())} instances of schemas"
    )


def _heading(axioms: AxiomSet, axiom: Equation) -> str:
    marks = [
        mark
        for mark, names in (("ring", axioms.ring), ("lemma", axioms.lemmas), ("uncut", axioms.uncut))
        if axiom.name in names
    ]
    return f"{', '.join(marks)}: {axioms.reasons[axiom.name]}" if marks else axioms.reasons[axiom.name]


@app.command("validate")
def validate(
    max_dim: Annotated[
        int,
        typer.Option("--max-dim", min=1, max=6, help="Largest dimension of inputs; all from 1 are tried."),
    ] = 4,
    symbolic: Annotated[
        int, typer.Option("--symbolic", min=0, metavar="N", help="Cases of each axiom over symbolic reals.")
    ] = SYMBOLIC_CASES,
    axiom: Annotated[
        list[str] | None, typer.Option("--axiom", metavar="NAME", help="Only this axiom; may be repeated.")
    ] = None,
    family: Annotated[str | None, typer.Option("--family", help="Only the axioms of this file.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither read nor write cached results.")
    ] = False,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check every axiom against the semantics of its operators. Exit 0 if all hold, else 1."""
    del database
    output = Output(as_json)
    axioms = load_axioms()
    chosen = [axioms.by_name[name] for name in chosen_names(axioms, axiom, family)]
    began = time.perf_counter()
    with estimated("validating axioms") as progress:
        results = list(
            validate_axioms(
                chosen,
                jobs=jobs,
                thoroughness=Thoroughness(Bound(max_dim), symbolic),
                cache=ContentCache(None) if no_cache else user_cache("axioms-validate"),
                progress=progress,
            )
        )
    seconds = time.perf_counter() - began
    wrong = [result for result in results if not result.valid]
    output.document(_validation_document(results, Bound(max_dim), seconds))
    for result in wrong:
        output.line(f"{result.name}: {result.reason}")
    missed = [result.name for result in results if result.valid and not result.cases]
    if missed:
        output.line(f"sampled only, no case with dimensions up to {max_dim}: {', '.join(missed)}")
    if axiom:
        rows = [
            (r.name, r.cases, _error(r.error_bits), r.symbolic, r.sampled, r.partial, round(r.seconds, 1))
            for r in results
        ]
        output.table(("axiom", "cases", "error", "symbolic", "sampled", "partial", "seconds"), rows)
    output.line(
        f"{len(results) - len(wrong)} of {len(results)} axioms hold: {sum(r.cases for r in results):,} cases "
        f"with dimensions up to {max_dim}, each with an error of at most "
        f"{_error(min((r.error_bits for r in results), default=0.0))}; "
        f"{sum(r.symbolic for r in results):,} for all real numbers"
        f"{_undecided(sum(r.undecided for r in results))}; "
        f"{sum(r.sampled for r in results):,} sampled beyond; "
        f"{sum(r.partial for r in results):,} with undefined elements; {seconds:.0f} s"
    )
    return NO if wrong else 0


def chosen_names(axioms: AxiomSet, names: list[str] | None, family: str | None) -> list[str]:
    """The names of the axioms selected by options. Raises InvalidOptionError for an unknown name."""
    if family is not None and family not in axioms.families.values():
        known = ", ".join(dict.fromkeys(axioms.families.values()))
        raise InvalidOptionError(f"--family: there is no family {family}; there are: {known}")
    for name in names or ():
        if name not in axioms.by_name:
            raise InvalidOptionError(f"--axiom: there is no axiom {name}; `superopt axioms list` shows all")
    return [
        name
        for name in axioms.by_name
        if (not names or name in names) and (family is None or axioms.families[name] == family)
    ]


def _validation_document(results: list[AxiomValidation], bound: Bound, seconds: float) -> object:
    return {
        "axioms": len(results),
        "max_dim": bound.max_dim,
        "max_rank": bound.max_rank,
        "cases": sum(result.cases for result in results),
        "evaluated": sum(result.evaluated for result in results),
        "error_log2": -min((result.error_bits for result in results), default=0.0),
        "symbolic": sum(result.symbolic for result in results),
        "symbolic_undecided": sum(result.undecided for result in results),
        "sampled": sum(result.sampled for result in results),
        "partial": sum(result.partial for result in results),
        "seconds": seconds,
        "invalid": [{"name": result.name, "reason": result.reason} for result in results if not result.valid],
        "results": [
            {
                "name": result.name,
                "valid": result.valid,
                "cases": result.cases,
                "evaluated": result.evaluated,
                "error_log2": -result.error_bits if result.cases else None,
                "symbolic": result.symbolic,
                "symbolic_undecided": result.undecided,
                "sampled": result.sampled,
                "partial": result.partial,
                "seconds": result.seconds,
            }
            for result in results
        ],
    }


def _error(bits: float) -> str:
    """A bound of the error probability; 0 if nothing was evaluated."""
    return f"2^-{bits:.0f}" if bits < NOTHING_EVALUATED else "0"


def _undecided(count: int) -> str:
    return f" ({count:,} undecided)" if count else ""


def print_axioms(axioms: list[Equation], output: Output) -> None:
    """Names and equations in two columns."""
    width = max((len(axiom.name) for axiom in axioms), default=0)
    for axiom in axioms:
        output.line(f"  {axiom.name:<{width}}  {format_equation(axiom)}")
