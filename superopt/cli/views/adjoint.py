"""Results of the validation of adjoint statements as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from superopt.axioms import AxiomSet
from superopt.cli.output import Output
from superopt.verifier.adjoints import AdjointValidation, missing_adjoints


def adjoints_document(results: Sequence[AdjointValidation], axioms: AxiomSet) -> dict[str, object]:
    """The results, and the operands of operators for which there is no statement."""
    return {
        "statements": len(results),
        "instances": sum(result.instances for result in results),
        "exact": sum(result.exact for result in results),
        "symbolic": sum(result.symbolic for result in results),
        "symbolic_undecided": sum(result.undecided for result in results),
        "seconds": sum(result.seconds for result in results),
        "invalid": [{"name": result.name, "reason": result.reason} for result in results if not result.valid],
        "missing": [
            {"operator": missing.operator, "input": missing.input, "composite": missing.composite}
            for missing in missing_adjoints(axioms)
        ],
        "results": [
            {
                "name": result.name,
                "valid": result.valid,
                "instances": result.instances,
                "exact": result.exact,
                "elsewhere": result.elsewhere,
                "undefined": result.undefined,
                "symbolic": result.symbolic,
                "symbolic_undecided": result.undecided,
                "seconds": result.seconds,
            }
            for result in results
        ],
    }


def print_adjoints(results: Sequence[AdjointValidation], axioms: AxiomSet, output: Output) -> None:
    """Counterexamples, then one line of counts; nothing where no statement was validated. The operands
    without a statement, where all statements were."""
    if not results:
        return
    for result in results:
        if not result.valid:
            output.line(f"{result.name}: {result.reason}")
    undecided = sum(result.undecided for result in results)
    output.line(
        f"{sum(result.valid for result in results)} of {len(results)} adjoint statements hold: "
        f"{sum(result.instances for result in results):,} instances, "
        f"{sum(result.exact for result in results):,} of them exact in a prime field; "
        f"{sum(result.symbolic for result in results):,} for all real numbers"
        f"{f' ({undecided:,} undecided)' if undecided else ''}; "
        f"{sum(result.seconds for result in results):.0f} s of the processor"
    )
    missing = missing_adjoints(axioms)
    if missing and len(results) == len(axioms.adjoints):
        operands = ", ".join(f"{each.operator} {each.input}" for each in missing)
        output.line(f"inputs of operators without an adjoint statement: {operands}")
