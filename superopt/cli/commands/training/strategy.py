"""Commands superopt strategy build, auto, apply, import and export: how gradients are synchronised."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from superopt.cli.output import JsonOption, NoDatabaseOption, Output, OutputOption, several, shown
from superopt.errors import InvalidOptionError
from superopt.files import is_stream, require_output

if TYPE_CHECKING:
    from superopt.optimizer.parallel.simulator import Simulation
    from superopt.optimizer.parallel.strategies.model import Strategy

StepArgument = Annotated[
    Path, typer.Argument(help="The training step, as superopt train-graph writes it.", metavar="STEP")
]
ClusterOption = Annotated[
    str, typer.Option(help="The cluster: a description's file, or a known machine as autodist-b7.")
]
ChunkOption = Annotated[
    int, typer.Option(help="Gradients, or parts of them, that builders merge into one all-reduce.", min=1)
]
Compressing: TypeAlias = Literal["none", "cast", "cast-with-feedback"]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]


def register(group: typer.Typer) -> None:
    """Adds the commands to those of ``superopt strategy``."""
    group.command("build")(build)
    group.command("apply")(apply)
    group.command("auto")(auto)
    group.command("import")(import_)
    group.command("export")(export)


def build(
    builder: Annotated[str, typer.Argument(help="One of AutoDist's builders, such as PartitionedPS.")],
    step: StepArgument,
    cluster: ClusterOption,
    out: OutputOption,
    chunk: ChunkOption = 128,
    seed: SeedOption = 0,
    staleness: Annotated[
        int, typer.Option(help="Steps by which servers apply gradients later; 0: none.", min=0)
    ] = 0,
    compressor: Annotated[
        Compressing, typer.Option(help="Encoding of the gradients that are all-reduced.")
    ] = "none",
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the strategy of one of AutoDist's builders: PS, PSLoadBalancing, PartitionedPS,
    UnevenPartitionedPS, AllReduce, PartitionedAR, RandomAxisPartitionAR, Parallax. With staleness or a
    compressor, `superopt strategy apply` writes the step that it trains."""
    from superopt.journeys.planning.clusters import find_cluster
    from superopt.journeys.planning.lifted_steps import LiftedStep
    from superopt.journeys.planning.strategies import build_strategy, write_strategy
    from superopt.optimizer.parallel.strategies.builders import Setting
    from superopt.optimizer.parallel.strategies.inexact import Inexactness
    from superopt.optimizer.parallel.strategies.model import Compressor

    del database
    output = Output.beside(as_json, out)
    require_output(out, {"training step": step, "cluster": cluster})
    _require_ending(out, ".json", ".pb")
    machine = find_cluster(cluster)
    asked = Inexactness(staleness, Compressor(compressor))
    built = build_strategy(LiftedStep.of(step), machine, builder, Setting(machine, chunk, seed), asked)
    write_strategy(built.strategy, out, as_message=out.suffix == ".pb")
    output.document(
        {
            "path": str(out),
            **_predicted(built.simulation),
            "unchanged": built.unchanged,
            "strategy": built.strategy.to_json(),
        }
    )
    lines = _lines(built.simulation)
    if built.unchanged:
        lines = {**lines, "unchanged": f"{several(built.unchanged, 'gradient')}, no single sums over devices"}
    output.pairs({"strategy": f"{shown(out)}: {_summary(built.strategy)}", **lines})


def apply(
    strategy: Annotated[Path, typer.Argument(help="A strategy with staleness or compressors.")],
    step: StepArgument,
    cluster: ClusterOption,
    out: OutputOption,
    data: Annotated[
        Path | None, typer.Option(help="Samples for the losses, as of superopt train; by default random.")
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(help="How much losses may differ: root mean square, as a share of their mean.", min=0),
    ] = 0.1,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the training step of a strategy that delays or compresses gradients, if the losses of 50 steps
    agree with those of STEP. It trains something else; `superopt optimize --strategy` plans it."""
    from superopt.journeys.planning.applied_strategy import apply_strategy
    from superopt.journeys.planning.clusters import find_cluster
    from superopt.journeys.planning.strategies import import_strategy

    del database
    output = Output.beside(as_json, out)
    require_output(
        out, {"training step": step, "cluster": cluster, "strategy": strategy, "file of samples": data}
    )
    found = apply_strategy(step, import_strategy(strategy), find_cluster(cluster), data, tolerance)
    found.model.save(out)
    before, after = found.before.microseconds, found.simulation.microseconds
    output.document({"path": str(out), **found.document()})
    output.pairs(
        {
            "step": f"{shown(out)}: {found.sentence()}",
            "predicted": f"{before:,.0f} -> {after:,.0f} us for a step, simulated",
            "sent": f"{found.before.communication_bytes / 1e6:,.2f} -> "
            f"{found.simulation.communication_bytes / 1e6:,.2f} MB",
        }
    )


def auto(
    step: StepArgument,
    cluster: ClusterOption,
    out: OutputOption,
    trials: Annotated[int, typer.Option(help="Strategies to simulate beside the builders'.", min=0)] = 48,
    budget: Annotated[float, typer.Option(help="Seconds; builders are tried in any case.", min=0)] = 60.0,
    chunk: ChunkOption = 128,
    seed: SeedOption = 0,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search for the fastest strategy of a step on a cluster, by simulation; never slower than the best
    builder's."""
    from superopt.journeys.planning.clusters import find_cluster
    from superopt.journeys.planning.strategies import auto_strategy, strategy_planner, write_strategy
    from superopt.optimizer.parallel.strategies.auto import Effort

    del database
    output = Output.beside(as_json, out)
    require_output(out, {"training step": step, "cluster": cluster})
    _require_ending(out, ".json", ".pb")
    planner = strategy_planner(step, find_cluster(cluster))
    found = auto_strategy(planner, Effort(trials, seed, chunk=chunk), budget)
    write_strategy(found.strategy, out, as_message=out.suffix == ".pb")
    builders = {trial.name: round(trial.microseconds, 3) for trial in found.builders}
    best = found.best.microseconds
    output.document(
        {
            "path": str(out),
            "predicted_us": round(best, 3),
            "fits": found.best.fits,
            "builders_us": builders,
            "trials": len(found.trials),
            "ranking_accuracy": found.accuracies,
            "strategy": found.strategy.to_json(),
        }
    )
    others = sorted(builders.items(), key=lambda item: item[1])
    output.pairs(
        {
            "strategy": f"{shown(out)}: {_summary(found.strategy)}",
            "predicted": f"{best:,.0f} us for a step, simulated; {several(len(found.trials), 'trial')}",
            "builders": ", ".join(f"{name} {time:,.0f}" for name, time in others),
        }
    )


def import_(
    path: Annotated[Path, typer.Argument(help="A strategy: AutoDist's protobuf message, or JSON.")],
    out: OutputOption,
    cluster: Annotated[
        str | None, typer.Option(help="Rename nodes to those of this cluster, in the order of their names.")
    ] = None,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read a strategy in AutoDist's published format and write it as JSON."""
    from superopt.journeys.planning.clusters import cluster_if_named
    from superopt.journeys.planning.strategies import import_strategy

    del database
    require_output(out, {"strategy": path, "cluster": cluster})
    _require_ending(out, ".json")
    _write(import_strategy(path, cluster_if_named(cluster)), out, as_json=as_json)


def export(
    path: Annotated[Path, typer.Argument(help="A strategy as JSON.", metavar="STRATEGY.json")],
    out: OutputOption,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a strategy in AutoDist's published protobuf format; the output ends in .pb."""
    from superopt.journeys.planning.strategies import import_strategy

    del database
    require_output(out, {"strategy": path})
    _require_ending(out, ".pb")
    _write(import_strategy(path), out, as_json=as_json, as_message=True)


def _require_ending(out: Path, *endings: str) -> None:
    """Raises InvalidOptionError for a name by which ``superopt optimize --strategy`` could not tell what the
    file is."""
    if out.suffix not in endings and not is_stream(out):
        raise InvalidOptionError(f"output: expected a path that ends in {' or '.join(endings)}, got {out}")


def _write(strategy: Strategy, out: Path, *, as_json: bool, as_message: bool = False) -> None:
    from superopt.journeys.planning.strategies import write_strategy

    output = Output.beside(as_json, out)
    write_strategy(strategy, out, as_message=as_message)
    output.document({"path": str(out), "strategy": strategy.to_json()})
    output.pairs({"strategy": f"{shown(out)}: {_summary(strategy)}"})


def _summary(strategy: Strategy) -> str:
    from superopt.optimizer.parallel.strategies.model import Collective, Server

    parts = [one for variable in strategy.variables for one in variable.synchronizers]
    servers = {one.destination for one in parts if isinstance(one, Server)}
    groups = {one.group for one in parts if isinstance(one, Collective)}
    served = sum(isinstance(one, Server) for one in parts)
    return (
        f"{strategy.identity or 'strategy'}, {several(len(strategy.variables), 'variable')} in "
        f"{several(len(parts), 'part')}: {served} on {several(len(servers), 'server')}, "
        f"{len(parts) - served} in {several(len(groups), 'all-reduce')}"
    )


def _predicted(simulation: Simulation) -> Mapping[str, object]:
    return {
        "predicted_us": round(simulation.microseconds, 3),
        "communication_bytes": simulation.communication_bytes,
        "peak_bytes": max(simulation.memory_bytes),
    }


def _lines(simulation: Simulation) -> Mapping[str, object]:
    return {
        "predicted": f"{simulation.microseconds:,.0f} us for a step, simulated",
        "sent": f"{simulation.communication_bytes / 1e6:,.2f} MB",
        "memory": f"{max(simulation.memory_bytes) / 1e6:,.2f} MB on the fullest device",
    }
