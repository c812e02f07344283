"""Command superopt axioms discover: finds adjoint statements and compares them with the axiom files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.output import JsonOption, NoDatabaseOption, Output
from superopt.cli.progress import counted
from superopt.processes.peak import peak_memory_bytes

if TYPE_CHECKING:
    from superopt.journeys.library.adjoints import Discovery, Form
    from superopt.verifier.adjoints import AdjointValidation, MissingAdjoint


def register(axioms: typer.Typer) -> None:
    """Adds the command to those of ``superopt axioms``."""
    axioms.command("discover")(discover)


def discover(
    operator: Annotated[
        list[str] | None,
        typer.Option("--operator", metavar="NAME", help="Only this operator; may be repeated."),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option("--size", min=1, metavar="N", help="Largest number of operators in a gradient."),
    ] = None,
    forms: Annotated[int, typer.Option("--forms", min=1, help="Forms kept for each application.")] = 3,
    cases: Annotated[
        int,
        typer.Option(
            "--cases", min=0, metavar="N", help="Cases of each form in order; `validate` tries 1000."
        ),
    ] = 20,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that validate forms.")] = 2,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither read nor write cached validations.")
    ] = False,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Discover the gradients of operators from their semantics, and compare them with the adjoint statements.

    Preset `adjoints` has the operators that gradients are made of. The axiom files are not changed.
    """
    from superopt.axioms import load_axioms
    from superopt.generator.adjoints import load_vocabulary
    from superopt.journeys.library import adjoints
    from superopt.verifier.adjoints import AdjointEffort
    from superopt.verifier.content_cache import ContentCache, user_cache

    del database
    output = Output(as_json)
    axioms, vocabulary = load_axioms(), load_vocabulary()
    missing = () if operator else adjoints.without_goals(axioms, vocabulary)
    vocabulary = vocabulary if operator is None else vocabulary.restricted_to(operator)
    vocabulary = vocabulary if size is None else vocabulary.up_to(size)
    began = time.perf_counter()
    with counted("discovering") as progress:
        found = adjoints.merged(adjoints.discover(axioms, vocabulary, forms=forms, progress=progress))
    peak = peak_memory_bytes()
    cache = ContentCache(None) if no_cache else user_cache("axioms-validate")
    with counted("validating") as progress:
        effort = AdjointEffort(cases=cases, symbolic=1)
        found = adjoints.confirmed(found, jobs=jobs, effort=effort, cache=cache, progress=progress)
    output.document(_document(found, missing, peak, time.perf_counter() - began))
    for each in found:
        _print(each, output)
    _print_summary(found, missing, peak, output)


def _print(found: Discovery, output: Output) -> None:
    from superopt.equations import format_term

    output.line(f"{found.operator} {found.input}: {_verdict(found)}")
    for form in found.forms:
        name = f"  {form.name}" if form.name else ""
        output.line(f"  {form.operators}  {format_term(form.statement.gradient)}{_marks(form)}{name}")
    if found.forms and found.missed:
        output.line(f"  not found: {', '.join(found.missed)}")


def _verdict(found: Discovery) -> str:
    from superopt.journeys.library.adjoints import Verdict

    match found.verdict:
        case Verdict.CHAIN:
            return (
                f"not found within {found.reach} operators; follows by the chain rule from {found.definition}"
            )
        case Verdict.NOT_FOUND:
            return f"not found within {found.reach} operators"
        case verdict:
            return str(verdict)


def _marks(form: Form) -> str:
    return "" if form.total else "  (may be undefined where the operator is not)"


def _print_summary(
    found: Sequence[Discovery], missing: Sequence[MissingAdjoint], peak: int, output: Output
) -> None:
    from superopt.journeys.library.adjoints import Verdict

    counts = [f"{sum(each.verdict is verdict for each in found)} {verdict}" for verdict in Verdict]
    output.line(f"\n{len(found)} operands: {', '.join(counts)}")
    output.line(
        f"discovery: {sum(each.compared for each in found):,} values compared, "
        f"{sum(each.refuted for each in found):,} candidates refuted; "
        f"{sum(each.seconds for each in found):.0f} s of the processor, {peak / 1e6:.0f} MB"
    )
    output.line(
        f"validation: {sum(len(each.forms) for each in found)} forms hold at "
        f"{sum(result.instances for result in _validations(found)):,} instances; "
        f"{sum(result.seconds for result in _validations(found)):.0f} s of the processor"
    )
    if missing:
        operands = ", ".join(f"{each.operator} {each.input}" for each in missing)
        output.line(f"operands that the preset does not differentiate: {operands}")


def _validations(found: Sequence[Discovery]) -> list[AdjointValidation]:
    """The results for the forms that hold."""
    return [form.validation for each in found for form in each.forms if form.validation is not None]


def _document(
    found: Sequence[Discovery], missing: Sequence[MissingAdjoint], peak: int, seconds: float
) -> dict[str, object]:
    return {
        "seconds": seconds,
        "peak_memory_bytes": peak,
        "not_differentiated": [{"operator": each.operator, "input": each.input} for each in missing],
        "operands": [
            {
                "operator": each.operator,
                "input": each.input,
                "verdict": str(each.verdict),
                "definition": each.definition or None,
                "searched_operators": each.reach or None,
                "missed": list(each.missed),
                "compared": each.compared,
                "refuted": each.refuted,
                "seconds": each.seconds,
                "forms": [_form(form) for form in each.forms],
            }
            for each in found
        ],
    }


def _form(form: Form) -> dict[str, object]:
    from superopt.equations import format_adjoint

    validation = form.validation
    return {
        "statement": format_adjoint(form.statement),
        "operators": form.operators,
        "total": form.total,
        "name": form.name or None,
        "instances": None if validation is None else validation.instances,
        "exact": None if validation is None else validation.exact,
        "symbolic": None if validation is None else validation.symbolic,
    }
