"""Commands superopt axioms list and validate, of axioms and adjoint statements."""

from __future__ import annotations

import time
from collections.abc import Collection
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.output import JsonOption, NoDatabaseOption, Output
from superopt.cli.progress import counted, estimated
from superopt.errors import InvalidOptionError

if TYPE_CHECKING:
    from superopt.axioms import AxiomSet
    from superopt.instances.values import Bound
    from superopt.ir import Equation
    from superopt.verifier.adjoints import AdjointEffort, AdjointValidation
    from superopt.verifier.axiom_checks.validation import AxiomValidation
    from superopt.verifier.content_cache import ContentCache

NO = 1


def register(axioms: typer.Typer) -> None:
    """Adds the commands to those of ``superopt axioms``."""
    axioms.command("list")(list_axioms)
    axioms.command("validate")(validate)


def list_axioms(
    family: Annotated[str | None, typer.Option("--family", help="Only the axioms of this file.")] = None,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List all axioms and adjoint statements by family, grouped by reason or schema."""
    from superopt.axioms import load_axioms

    del database
    output = Output(as_json)
    axioms = load_axioms()
    chosen = _chosen(axioms, axioms.families, None, family)
    output.document(
        [
            {
                "name": name,
                "family": axioms.families[name],
                "reason": axioms.reasons[name],
                "ring": name in axioms.ring,
                "lemma": name in axioms.lemmas,
                "schema": axioms.schemas.get(name),
                "uncut": name in axioms.uncut,
                "late": name in axioms.late,
                "adjoint": name in axioms.adjoints_by_name,
                "equation": _text(axioms, name),
            }
            for name in chosen
        ]
    )
    for title, members in groupby(chosen, axioms.families.__getitem__):
        output.line(f"\n{title}")
        for heading, block in groupby(members, partial(_heading, axioms)):
            output.line(f"\n  # {heading}")
            for schema, instances in groupby(block, axioms.schemas.get):
                if schema:
                    output.line(f"  # {schema}")
                _print_named([(name, _text(axioms, name)) for name in instances], output)
    names = frozenset(chosen) & axioms.by_name.keys()
    adjoints = len(chosen) - len(names)
    output.line(
        f"\n{len(names)} axioms, {len(names & axioms.ring)} of them valid in every commutative ring, "
        f"{len(names & axioms.lemmas)} lemmas, "
        f"{len(names & axioms.schemas.keys())} instances of schemas"
        f"{f'; {adjoints} adjoint statements' if adjoints else ''}"
    )


def _text(axioms: AxiomSet, name: str) -> str:
    """The axiom or adjoint statement of that name."""
    from superopt.equations import format_adjoint, format_equation

    adjoint = axioms.adjoints_by_name.get(name)
    return format_equation(axioms.by_name[name]) if adjoint is None else format_adjoint(adjoint)


def _heading(axioms: AxiomSet, name: str) -> str:
    marks = [
        mark
        for mark, names in (
            ("ring", axioms.ring),
            ("lemma", axioms.lemmas),
            ("uncut", axioms.uncut),
            ("late", axioms.late),
        )
        if name in names
    ]
    return f"{', '.join(marks)}: {axioms.reasons[name]}" if marks else axioms.reasons[name]


def validate(
    max_dim: Annotated[
        int,
        typer.Option("--max-dim", min=1, max=6, help="Largest dimension of inputs; all from 1 are tried."),
    ] = 4,
    symbolic: Annotated[
        int, typer.Option("--symbolic", min=0, metavar="N", help="Cases of each over symbolic reals.")
    ] = 2,
    axiom: Annotated[
        list[str] | None,
        typer.Option("--axiom", metavar="NAME", help="Only this axiom or adjoint; may be repeated."),
    ] = None,
    family: Annotated[str | None, typer.Option("--family", help="Only the axioms of this file.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither read nor write cached results.")
    ] = False,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check every axiom and adjoint statement against the semantics of its operators. Exit 0 if all hold,
    else 1."""
    from superopt.axioms import load_axioms
    from superopt.cli.views.adjoint import adjoints_document, print_adjoints
    from superopt.instances.values import Bound
    from superopt.verifier.adjoints import AdjointEffort
    from superopt.verifier.axiom_checks.validation import Thoroughness, validate_axioms
    from superopt.verifier.content_cache import ContentCache, user_cache

    del database
    output = Output(as_json)
    axioms = load_axioms()
    names = _chosen(axioms, axioms.families, axiom, family)
    chosen = [axioms.by_name[name] for name in names if name in axioms.by_name]
    cache = ContentCache(None) if no_cache else user_cache("axioms-validate")
    began = time.perf_counter()
    with estimated("validating axioms") as progress:
        results = list(
            validate_axioms(
                chosen,
                jobs=jobs,
                thoroughness=Thoroughness(Bound(max_dim), symbolic),
                cache=cache,
                progress=progress,
            )
        )
    seconds = time.perf_counter() - began
    effort = AdjointEffort(Bound(max_dim), symbolic=symbolic)
    adjoints = _validated_adjoints(axioms, names, effort, cache, jobs)
    wrong = [result for result in results if not result.valid]
    output.document(
        _validation_document(results, Bound(max_dim), seconds)
        | {"adjoints": adjoints_document(adjoints, axioms)}
    )
    if results or not adjoints:
        _print_failures(results, max_dim, output)
        if axiom:
            _print_rows(results, output)
        _print_counts(results, max_dim, seconds, output)
    print_adjoints(adjoints, axioms, output)
    return NO if wrong or not all(result.valid for result in adjoints) else 0


def _print_failures(results: list[AxiomValidation], max_dim: int, output: Output) -> None:
    """Counterexamples, and axioms without a case."""
    for result in results:
        if not result.valid:
            output.line(f"{result.name}: {result.reason}")
    missed = [result.name for result in results if result.valid and not result.cases + result.real]
    if missed:
        output.line(f"sampled only, no case with dimensions up to {max_dim}: {', '.join(missed)}")


def _print_rows(results: list[AxiomValidation], output: Output) -> None:
    """One row for each axiom."""
    rows = [
        (r.name, r.cases, _error(r.error_bits), r.real, r.symbolic, r.sampled, r.partial, round(r.seconds, 1))
        for r in results
    ]
    output.table(("axiom", "cases", "error", "real", "symbolic", "sampled", "partial", "seconds"), rows)


def _print_counts(results: list[AxiomValidation], max_dim: int, seconds: float, output: Output) -> None:
    """One line about all axioms."""
    output.line(
        f"{sum(r.valid for r in results)} of {len(results)} axioms hold: "
        f"{sum(r.cases for r in results):,} cases with dimensions up to {max_dim}, "
        f"each with an error of at most {_error(min((r.error_bits for r in results), default=0.0))}; "
        f"{_real(sum(r.real for r in results))}"
        f"{sum(r.symbolic for r in results):,} for all real numbers"
        f"{_undecided(sum(r.undecided for r in results))}; "
        f"{sum(r.sampled for r in results):,} sampled beyond; "
        f"{sum(r.partial for r in results):,} with undefined elements; {seconds:.0f} s"
    )


def _validated_adjoints(
    axioms: AxiomSet, names: list[str], effort: AdjointEffort, cache: ContentCache, jobs: int
) -> list[AdjointValidation]:
    """The adjoint statements among the names, validated."""
    from superopt.verifier.adjoints import validate_adjoints

    chosen = [axioms.adjoints_by_name[name] for name in names if name in axioms.adjoints_by_name]
    if not chosen:
        return []
    with counted("validating adjoint statements") as progress:
        return list(validate_adjoints(chosen, jobs=jobs, effort=effort, cache=cache, progress=progress))


def chosen_names(axioms: AxiomSet, names: list[str] | None, family: str | None) -> list[str]:
    """The names of the axioms selected by options. Raises InvalidOptionError for an unknown name."""
    return _chosen(axioms, axioms.by_name, names, family)


def _chosen(
    axioms: AxiomSet, known: Collection[str], names: list[str] | None, family: str | None
) -> list[str]:
    """The ``known`` names selected by options. Raises InvalidOptionError for an unknown one."""
    if family is not None and family not in axioms.families.values():
        there = ", ".join(dict.fromkeys(axioms.families.values()))
        raise InvalidOptionError(f"--family: there is no family {family}; there are: {there}")
    for name in names or ():
        if name not in known:
            raise InvalidOptionError(f"--axiom: there is no axiom {name}; `superopt axioms list` shows all")
    return [
        name
        for name in known
        if (not names or name in names) and (family is None or axioms.families[name] == family)
    ]


def _validation_document(results: list[AxiomValidation], bound: Bound, seconds: float) -> dict[str, object]:
    return {
        "axioms": len(results),
        "max_dim": bound.max_dim,
        "max_rank": bound.max_rank,
        "cases": sum(result.cases for result in results),
        "evaluated": sum(result.evaluated for result in results),
        "error_log2": -min((result.error_bits for result in results), default=0.0),
        "real": sum(result.real for result in results),
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
                "real": result.real,
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
    from superopt.verifier.axiom_checks.validation import NOTHING_EVALUATED

    return f"2^-{bits:.0f}" if bits < NOTHING_EVALUATED else "0"


def _real(count: int) -> str:
    """Cases in which functions have laws that residues do not know."""
    return f"{count:,} compared on real numbers; " if count else ""


def _undecided(count: int) -> str:
    return f" ({count:,} undecided)" if count else ""


def print_axioms(axioms: list[Equation], output: Output) -> None:
    """Names and equations in two columns."""
    from superopt.equations import format_equation

    _print_named([(axiom.name, format_equation(axiom)) for axiom in axioms], output)


def _print_named(rows: list[tuple[str, str]], output: Output) -> None:
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        output.line(f"  {name:<{width}}  {text}")
