"""Commands superopt inspect and check: describe a model, compare two models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.logs import warned
from superopt.cli.output import DatabaseOption, JsonOption, ModelArgument, NoDatabaseOption, Output
from superopt.errors import InvalidOptionError

if TYPE_CHECKING:
    from superopt.optimizer.pipeline.reporting.report import EquivalenceSummary

NOT_EQUIVALENT, UNDECIDED = 1, 3


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("inspect")(inspect)
    app.command("check")(check)


def inspect(
    model: ModelArgument,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show operators, opaque nodes with reasons, shapes, and matching rules of a model."""
    from superopt.cli.views.body import print_inspected
    from superopt.cli.views.inventory import print_one
    from superopt.cli.views.staleness import stale_warning
    from superopt.journeys import in_process as api

    output = Output(as_json)
    with warned():
        inspection = api.inspect(model, database=database)
    output.document(inspection.to_json())
    output.pairs(
        {
            "model": inspection.name,
            "nodes": inspection.nodes,
            "opset": inspection.opset,
            "inputs": _ports(inspection.inputs),
            "outputs": _ports(inspection.outputs),
        }
    )
    if inspection.dimensions:
        runs = "runs" if inspection.runs else "was not found to run"
        output.line(f"\nSymbolic dimensions; the model {runs} at these sizes; give those you run with:")
        output.line(f"  superopt optimize {model} -o OUT {inspection.size_options}")
        output.table(
            ("dimension", "of", "size"),
            [
                (name, ", ".join(f"{port} axis {axis}" for port, axis in places), size)
                for name, places, size in inspection.dimensions
            ],
        )
    output.line()
    print_one(inspection.to_json()["inventory"], output)
    output.line()
    output.table(("operator in rules", "nodes"), inspection.operators)
    if inspection.opaque:
        output.line("\nOpaque nodes, kept unchanged:")
        reasons = Counter((op_type, why) for _, op_type, why in inspection.opaque)
        output.table(
            ("ONNX operator", "nodes", "why"), [(op, n, why) for (op, why), n in reasons.most_common()]
        )
    if inspection.computing_sizes:
        counted = ", ".join(f"{count} {operator}" for operator, count in inspection.computing_sizes)
        output.line(f"\nNodes that compute from sizes alone, kept unchanged: {counted}")
    print_inspected(inspection.bodies, output)
    output.line()
    for warning in stale_warning(inspection.stale):
        output.line(f"warning: {warning}")
    output.line(f"{len(inspection.matches)} of {inspection.rules} rules match:")
    output.table(("rule", "sites", "equation"), [(m.rule, m.sites, m.equation) for m in inspection.matches])


_PORTS = 12
"""Inputs and outputs that are shown; a training step has hundreds."""


def _ports(ports: Sequence[tuple[str, str]]) -> str:
    """The first ones with their types, and the number of the others."""
    shown = ", ".join(f"{name}: {type_}" for name, type_ in ports[:_PORTS])
    return shown if len(ports) <= _PORTS else f"{shown} and {len(ports) - _PORTS} more (all with --json)"


def _errors(summary: EquivalenceSummary) -> dict[str, object]:
    from superopt.cli.views.equivalence import errors_against

    errors = {"absolute": summary.max_abs_error, "relative": summary.max_rel_error}
    texts = {name: "no number" if error is None else f"{error:.3g}" for name, error in errors.items()}
    texts["relative"] += errors_against(summary)
    return {f"largest {name} error": text for name, text in texts.items()}


def check(
    first: Annotated[Path, typer.Argument(metavar="MODEL_A", help="The model to compare with.")],
    second: Annotated[Path, typer.Argument(metavar="MODEL_B", help="The model to compare.")],
    samples: Annotated[int, typer.Option(min=1, help="Number of random inputs.")] = 4,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Error allowed beyond the original's own rounding error; default by element type."),
    ] = None,
    inputs: Annotated[Path | None, typer.Option(help="An .npz file with inputs to use as well.")] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option(help="Size of an open dimension, as in batch=8; `superopt inspect` lists them."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random inputs.")] = 0,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run both models on random inputs. Exit 0 if MODEL_B is as accurate as MODEL_A, 1 if not, 3 if nothing
    could be compared.
    """
    from superopt.cli.job_options import read_size
    from superopt.cli.views.equivalence import branches_missed
    from superopt.cli.views.size import checked_pairs
    from superopt.journeys import in_process as api
    from superopt.optimizer.pipeline.reporting.report import EquivalenceSummary

    del database
    output = Output(as_json)
    if tolerance is not None and not tolerance > 0:
        raise InvalidOptionError(f"tolerance: expected a number above 0, got {tolerance!r}")
    verdict = api.check(
        first,
        second,
        samples=samples,
        tolerance=tolerance,
        inputs=inputs,
        seed=seed,
        dims=dict(read_size("dim", text) for text in dim or ()),
    )
    summary = EquivalenceSummary.of(verdict)
    output.document({**asdict(summary), "sizes": [dict(sizes) for sizes in verdict.sizes]})
    output.pairs(
        {
            "equivalent": "yes" if verdict.passed else "undecided" if verdict.undecided else "no",
            "samples": verdict.samples,
        }
        | checked_pairs(verdict.sizes)
        | (_errors(summary) if verdict.samples else {})
    )
    if verdict.why:
        output.line(verdict.why)
    missed = branches_missed(summary)
    if missed:
        output.line(f"not compared, because no input led there: {missed}")
    return 0 if verdict.passed else UNDECIDED if verdict.undecided else NOT_EQUIVALENT
