"""Commands superopt axioms consistency and redundancy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.output import JsonOption, NoDatabaseOption, Output
from superopt.cli.progress import estimated

if TYPE_CHECKING:
    from superopt.axioms import AxiomSet
    from superopt.verifier.axiom_checks.consistency import Consistency, Falsehood
    from superopt.verifier.axiom_checks.redundancy import AxiomRedundancy
    from superopt.verifier.content_cache import ContentCache

NO, UNDECIDED = 1, 3
_SHOWN = 10

JobsOption = Annotated[int, typer.Option("--jobs", min=1, help="Processes.")]
BudgetOption = Annotated[
    float | None,
    typer.Option(
        "--budget",
        min=0,
        metavar="SECONDS",
        help="Seconds after which to stop; remaining axioms are undecided.",
    ),
]
AxiomOption = Annotated[
    list[str] | None, typer.Option("--axiom", metavar="NAME", help="Only this axiom; may be repeated.")
]
FamilyOption = Annotated[str | None, typer.Option("--family", help="Only the axioms of this file.")]
NoCacheOption = Annotated[bool, typer.Option("--no-cache", help="Neither read nor write cached results.")]


def register(axioms: typer.Typer) -> None:
    """Adds the commands to those of ``superopt axioms``."""
    axioms.command("consistency")(consistency)
    axioms.command("redundancy")(redundancy)


def consistency(
    jobs: JobsOption = 2,
    budget: BudgetOption = None,
    axiom: AxiomOption = None,
    family: FamilyOption = None,
    no_cache: NoCacheOption = False,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> int:
    """Search for falsehoods that follow from the axioms. Exit 1 if one is found, with its chain."""
    from superopt.axioms import load_axioms
    from superopt.verifier.axiom_checks.consistency import check_consistency

    del database
    output = Output(as_json)
    axioms = load_axioms()
    with estimated("searching around axioms") as progress:
        found = check_consistency(
            axioms,
            names=_names(axioms, axiom, family),
            jobs=jobs,
            seconds=budget,
            cache=_cache("axioms-consistency", no_cache=no_cache),
            progress=progress,
        )
    output.document(_consistency_document(found))
    _print_falsehoods(found.inconsistencies, output)
    if found.notes:
        output.line("derivable only without types; a chain checked step by step cannot reach these:\n")
        _print_falsehoods(found.notes, output)
    for undecided in found.undecided:
        output.line(f"undecided: {undecided.axiom}: {undecided.reason}")
    counts = found.counts
    inconsistencies = _counted(len(found.inconsistencies), "inconsistency", "inconsistencies")
    output.line(
        f"{_counted(found.axioms, 'axiom', 'axioms')}: {counts.overlaps} overlaps of two, "
        f"{counts.compared} of them compared on tensors, {counts.saturated} saturation steps, "
        f"{counts.asked} Z3 queries: {inconsistencies}, "
        f"{_counted(len(found.notes), 'note', 'notes')}"
    )
    return NO if found.inconsistencies else UNDECIDED if found.undecided else 0


def redundancy(
    jobs: JobsOption = 2,
    budget: BudgetOption = None,
    axiom: AxiomOption = None,
    family: FamilyOption = None,
    proofs: Annotated[bool, typer.Option("--proofs", help="Print proofs of lemmas too.")] = False,
    no_cache: NoCacheOption = False,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> int:
    """Search for axioms that follow from the others. Exit 1 if one of them is not marked as a lemma."""
    from superopt.axioms import load_axioms
    from superopt.verifier.axiom_checks.redundancy import Standing, check_redundancy

    del database
    output = Output(as_json)
    axioms = load_axioms()
    with estimated("proving axioms from the others") as progress:
        results = list(
            check_redundancy(
                axioms,
                names=_names(axioms, axiom, family),
                jobs=jobs,
                seconds=budget,
                cache=_cache("axioms-redundancy", no_cache=no_cache),
                progress=progress,
            )
        )
    offences = [result for result in results if result.is_offence]
    undecided = [result for result in results if result.standing is Standing.UNDECIDED]
    output.document(
        {
            "axioms": len(results),
            "redundant": [result.name for result in offences],
            "undecided": [result.name for result in undecided],
            "results": [{**asdict(result), "standing": str(result.standing)} for result in results],
        }
    )
    for result in results:
        _print_redundancy(result, output, with_proof=proofs or result.is_offence)
    lemmas = [result for result in results if result.lemma]
    shown = sum(result.standing is Standing.REDUNDANT for result in lemmas)
    in_all, of_lemmas = _counted(len(results), "axiom", "axioms"), _counted(len(lemmas), "lemma", "lemmas")
    output.line(
        f"{in_all}: {len(offences)} redundant, {len(undecided)} undecided; "
        f"{shown} of {of_lemmas} shown to follow from the others"
    )
    return NO if offences else UNDECIDED if undecided else 0


def _names(axioms: AxiomSet, names: list[str] | None, family: str | None) -> list[str] | None:
    """The names of the axioms selected by options; None for all."""
    from superopt.cli.commands.axioms.axiom import chosen_names

    return chosen_names(axioms, names, family) if names or family is not None else None


def _cache(purpose: str, *, no_cache: bool) -> ContentCache:
    from superopt.verifier.content_cache import ContentCache, user_cache

    return ContentCache(None) if no_cache else user_cache(purpose)


def _consistency_document(found: Consistency) -> object:
    return {
        "axioms": found.axioms,
        "consistent": not found.inconsistencies,
        "inconsistencies": [_falsehood_object(each) for each in found.inconsistencies],
        "notes": [_falsehood_object(each) for each in found.notes],
        "undecided": [{"name": each.axiom, "reason": each.reason} for each in found.undecided],
        "counts": asdict(found.counts),
    }


def _falsehood_object(falsehood: Falsehood) -> object:
    return {**asdict(falsehood), "kind": str(falsehood.kind)}


def _print_falsehoods(falsehoods: Sequence[Falsehood], output: Output) -> None:
    for falsehood in falsehoods[:_SHOWN]:
        output.line(f"{falsehood.equation}")
        output.line(f"  {falsehood.kind}: {falsehood.reason}")
        where = f" with {falsehood.instance}" if falsehood.instance else ""
        output.line(f"  found by {falsehood.found_by}{where}: {falsehood.difference}")
        for step in falsehood.steps:
            output.line(f"    {step}")
        output.line()
    if len(falsehoods) > _SHOWN:
        output.line(f"... and {len(falsehoods) - _SHOWN} more\n")


def _print_redundancy(result: AxiomRedundancy, output: Output, *, with_proof: bool) -> None:
    from superopt.verifier.axiom_checks.redundancy import Standing

    if result.standing is Standing.REDUNDANT and with_proof:
        kind = "lemma" if result.lemma else "redundant"
        output.line(f"{result.name}: {kind}, follows from {', '.join(result.axioms_used) or 'nothing'}")
        for line in result.proof.splitlines():
            output.line(f"    {line}")
        output.line()
    elif result.standing is Standing.UNDECIDED:
        output.line(f"undecided: {result.name}: {result.reason}")
    elif result.lemma and result.standing is Standing.INDEPENDENT:
        output.line(f"{result.name}: marked as a lemma, but no proof was found: {result.reason}")


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
