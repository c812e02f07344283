"""Commands superopt prove and gate: prove one rule, check all proofs of a library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.output import DatabaseOption, JsonOption, NoDatabaseOption, Output
from superopt.cli.progress import counted

if TYPE_CHECKING:
    from superopt.ir import Equation
    from superopt.journeys.library.gate import GateResult
    from superopt.verifier import Verdict
    from superopt.verifier.conditions.inference import Conditional

NO = 1
UNDECIDED = 3


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("prove")(prove)
    app.command("gate")(gate)


def prove(
    equation: Annotated[str, typer.Argument(metavar='"LHS => RHS"', help="The rule to prove.")],
    seconds: Annotated[float, typer.Option("--timeout", min=0.001, help="Time limit in seconds.")] = 300.0,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> int:
    """Prove one rule. Exit 0 if proved, with the chain of axioms; 1 if refuted, with a counterexample and a
    condition under which it holds; 3 if unproved.
    """
    from superopt.equations import format_equation
    from superopt.journeys import proving as api
    from superopt.verifier import Status

    del database
    output = Output(as_json)
    judgement = api.prove(equation, timeout=seconds)
    output.document(judgement.to_json())
    output.line(format_equation(judgement.equation))
    verdict = judgement.details
    match verdict.status:
        case Status.VERIFIED:
            _print_proof(judgement.equation, verdict, output)
            return 0
        case Status.REFUTED:
            output.line(f"refuted: {verdict.counterexample}")
            if judgement.condition is not None:
                _print_condition(judgement.condition, output)
            return NO
        case _:
            output.line(f"unproved: {verdict.reason}")
            return UNDECIDED


def _print_proof(equation: Equation, verdict: Verdict, output: Output) -> None:
    from superopt.axioms import load_axioms
    from superopt.cli.commands.axioms.axiom import print_axioms
    from superopt.verifier.certificates.certificate import format_certificate

    found = f"{verdict.milliseconds:.0f} ms by {verdict.prover} {verdict.version}"
    if verdict.certificate is not None:
        output.line(f"proved in {found}; all terms of the chain are well-typed in every case:\n")
        output.line(format_certificate(equation, verdict.certificate))
    else:
        output.line(f"proved in {found}; checked only for the sizes tried")
    if verdict.confirmed_by:
        output.line(f"\n{verdict.confirmed_by} also derives it from the same axioms, without shapes")
    output.line("\naxioms used:")
    print_axioms([load_axioms().by_name[name] for name in verdict.axioms_used], output)
    output.line(f"\nvalidated on: {'; '.join(verdict.validated_shapes)}")


def _print_condition(conditional: Conditional, output: Output) -> None:
    from superopt.equations import format_equation

    if conditional.proved:
        where = "exactly where" if conditional.exact else "where, and also elsewhere"
        output.line(f"holds {where} (proved, and tested on {conditional.checked} instances):")
    else:
        output.line(f"not proved, but {conditional.checked} instances agree:")
    output.line(f"  {format_equation(conditional.equation)}")


def gate(
    files: Annotated[list[Path] | None, typer.Argument(help="Rule files (default: the library).")] = None,
    database: DatabaseOption = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that replay proofs.")] = 2,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Only compare hashes (takes seconds); no equation is parsed, no proof replayed."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Exit 0 if every rule has a proof that replays under the current axioms, operators and verifier, else 1.

    For the library, rules that are or were verified are checked, in the database and in the shipped file; no
    job uses others. Each rule is parsed, compared with the equation of its certificate and evaluated at
    random, and the certificate is replayed, regardless of recorded states. With the library, the adjoint
    statements are validated, too, on a few instances each. Equations of text files are proved first.
    """
    output = Output(as_json)
    result = _compared(files, database) if quick else _judged(files, database, jobs)
    output.document(
        {
            "quick": quick,
            "rules": result.rules,
            "replayed": result.replayed,
            "offenders": [{"id": o.id, "equation": o.equation, "reason": o.reason} for o in result.offenders],
            "unclaimed": {status.value: count for status, count in result.unclaimed.items()},
            "adjoints": result.adjoints,
            "wrong_adjoints": [
                {"name": o.id, "statement": o.equation, "reason": o.reason} for o in result.wrong_adjoints
            ],
        }
    )
    for offender in (*result.offenders, *result.wrong_adjoints):
        output.line(_printable(f"{offender.id}  {offender.equation}\n    {offender.reason}"))
    passing = f"{result.rules - len(result.offenders)} of {result.rules} rules"
    said = "have current hashes; --quick parses no equation and replays no proof" if quick else "pass"
    output.line(f"{passing} {said}")
    if result.adjoints:
        right = result.adjoints - len(result.wrong_adjoints)
        output.line(f"{right} of {result.adjoints} adjoint statements hold on the instances tried")
    if result.unclaimed:
        others = ", ".join(f"{count} {status}" for status, count in result.unclaimed.items())
        output.line(f"not checked, because rules that were never verified are not used: {others}")
    if not result.rules:
        output.line("there are no rules to check; the gate fails")
    return 0 if result.passed and result.rules else NO


def _judged(files: list[Path] | None, database: str | None, jobs: int) -> GateResult:
    from superopt.journeys.library.gate import gate_files, gate_library
    from superopt.substitution_db.rules.currency import current

    with counted("replaying") as progress:
        if files:
            return gate_files(files, current(), jobs=jobs, progress=progress)
        return gate_library(database, current(), jobs=jobs, progress=progress)


def _compared(files: list[Path] | None, database: str | None) -> GateResult:
    from superopt.journeys.library.gate import compare_hashes_of_files, compare_hashes_of_library
    from superopt.substitution_db.rules.currency import current

    if files:
        return compare_hashes_of_files(files, current())
    return compare_hashes_of_library(database, current())


def _printable(text: str) -> str:
    """Untrusted text without terminal control characters and look-alike letters."""
    return "".join(c if c == "\n" or " " <= c <= "~" else ascii(c)[1:-1] for c in text)
