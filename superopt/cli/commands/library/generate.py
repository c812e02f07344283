"""Command superopt library generate: discovers candidates from presets; resumable, local or distributed."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from platformdirs import user_cache_path

from superopt.cli.output import DatabaseOption, JsonOption, Output
from superopt.cli.progress import described
from superopt.domains.arrays import DEVICES
from superopt.errors import InvalidOptionError

if TYPE_CHECKING:
    from superopt import generator
    from superopt.generator import Generation, Preset, Workers
    from superopt.substitution_db.store.records import Added


def register(library: typer.Typer) -> None:
    """Adds the command to those of ``superopt library``."""
    library.command("generate")(generate)


def generate(
    preset: Annotated[
        list[str] | None, typer.Option(help="Which operators and inputs: a name, `all`, or a .toml file.")
    ] = None,
    max_ops: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of operators in a graph.")
    ] = None,
    operators: Annotated[str | None, typer.Option(help="Only these operators, separated by commas.")] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes (default: 1, which needs the least memory)."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Dask scheduler to run on, for instance tcp://127.0.0.1:8786."),
    ] = None,
    device: Annotated[
        str,
        typer.Option(metavar="|".join(DEVICES), help="Device that computes the values of graphs."),
    ] = "cpu",
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted run of the same command.")
    ] = False,
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY", help="Directory for checkpoints (default: the user cache directory)."
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Discover rules: enumerate graphs, pair equal ones, store them as candidates for verification.

    The candidates do not depend on the number of processes or machines, the device, or interruptions.
    """
    from superopt import generator
    from superopt.domains import arrays
    from superopt.journeys.library import discovery
    from superopt.substitution_db import open_database

    output = Output(as_json)
    presets = _presets(preset, operators)
    if scheduler is None or device not in DEVICES:
        arrays.device(device)
    root = work or user_cache_path("superopt", appauthor=False) / "generate"
    done: list[tuple[Generation, Added]] = []
    opened_work = generator.resumed_work if resume else generator.fresh_work
    try:
        with (
            open_database(database) as opened,
            _workers(jobs, scheduler) as workers,
            opened_work(root) as checkpoints,
        ):
            for chosen in presets:
                with described(chosen.name) as show:
                    done.append(
                        discovery.generate(
                            opened,
                            chosen,
                            max_ops=max_ops,
                            workers=replace(workers, device=device),
                            checkpoints=checkpoints,
                            progress=lambda p: show(_line(p)),
                        )
                    )
                _print(*done[-1], output)
    except KeyboardInterrupt:
        sys.stderr.write("to continue, run the same command with --resume\n")
        raise
    documents = [_document(*one) for one in done]
    output.document(documents[0] if len(documents) == 1 else {"presets": documents})
    if len(done) > 1:
        _print_summary(done, output)
    output.line("next: superopt library verify")


def _presets(names: list[str] | None, operators: str | None) -> tuple[Preset, ...]:
    """The selected presets, once each, restricted to the selected operators."""
    from superopt.generator import load_preset, preset_names

    wanted = preset_names() if not names or "all" in names else tuple(dict.fromkeys(names))
    presets = tuple(load_preset(name) for name in wanted)
    chosen = tuple(name.strip() for name in (operators or "").split(",") if name.strip())
    if not chosen:
        return presets
    if len(presets) == 1:
        return (presets[0].restricted_to(chosen),)
    known = {instance.name for preset in presets for instance in preset.instances}
    for name in chosen:
        if name not in known:
            raise InvalidOptionError(
                f"no preset has an operator {name}; they have: {', '.join(sorted(known))}"
            )
    shares = ((preset, [i.name for i in preset.instances if i.name in chosen]) for preset in presets)
    return tuple(preset.restricted_to(share) for preset, share in shares if share)


def _workers(jobs: int | None, scheduler: str | None) -> AbstractContextManager[Workers]:
    from superopt import generator

    if scheduler is not None:
        if jobs is not None:
            raise InvalidOptionError(
                "--jobs and --scheduler exclude each other: the scheduler has its own workers"
            )
        return generator.dask(scheduler)
    return nullcontext(generator.in_process()) if jobs is None or jobs == 1 else generator.processes(jobs)


def _line(progress: generator.Progress) -> str:
    """The progress of a run in one line."""
    level = progress.level
    parts = [
        progress.activity,
        f"stage {progress.done + 1} of {progress.total}" if progress.done < progress.total else "",
        "part {} of {}".format(*progress.parts) if progress.parts else "",
        "" if level is None else f"{level.ops} operators: {level.terms:,} terms, {level.classes:,} classes",
        f"{progress.pairs:,} pairs" if progress.pairs else "",
        f"{progress.dropped:,} pruned, {progress.kept:,} kept" if progress.dropped else "",
        f"{progress.memory_bytes / 1e6:,.0f} MB",
        f"{progress.seconds:.0f} s",
    ]
    return "; ".join(part for part in parts if part)


def _document(generation: Generation, added: Added) -> dict[str, object]:
    return {
        "preset": generation.preset,
        "max_ops": generation.max_ops,
        "levels": [
            {"ops": level.ops, "terms": level.terms, "classes": level.classes} for level in generation.levels
        ],
        "pairs": generation.pairs,
        "dropped": dict(generation.dropped),
        "saturation": dict(generation.saturation),
        "candidates": generation.distinct,
        "kept": generation.kept,
        "new": added.new,
        "seconds": round(generation.seconds, 2),
        "cpu_seconds": round(generation.cpu_seconds, 2),
        "cpu_seconds_by_phase": {name: round(spent, 2) for name, spent in generation.phases.items()},
        "peak_memory_bytes": generation.peak_memory_bytes,
        "resumed_tasks": generation.resumed,
    }


def _print(generation: Generation, added: Added, output: Output) -> None:
    output.line(f"{generation.preset}, up to {generation.max_ops} operators:")
    output.table(
        ("operators", "terms", "classes"),
        [(level.ops, level.terms, level.classes) for level in generation.levels],
    )
    spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in generation.phases.items())
    output.line(
        f"{generation.pairs} equal pairs, {generation.distinct} distinct, "
        f"{generation.kept} candidates kept, {added.new} new; {generation.seconds:.1f} s "
        f"(processor {generation.cpu_seconds:.1f} s: {spent}), {generation.peak_memory_bytes / 1e6:.0f} MB\n"
    )


def _print_summary(done: list[tuple[Generation, Added]], output: Output) -> None:
    """One line per preset with the number of equations dropped by each kind of pruning."""
    reasons = sorted({reason for generation, _ in done for reason in generation.dropped})
    output.table(
        (
            *("preset", "operators", "terms", "classes", "pairs", "distinct"),
            *(f"- {reason}" for reason in reasons),
            *("kept", "new", "CPU s", "MB"),
        ),
        [
            (
                generation.preset,
                generation.max_ops,
                sum(level.terms for level in generation.levels),
                max((level.classes for level in generation.levels), default=0),
                generation.pairs,
                generation.distinct,
                *(generation.dropped.get(reason, 0) for reason in reasons),
                generation.kept,
                added.new,
                round(generation.cpu_seconds, 1),
                round(generation.peak_memory_bytes / 1e6),
            )
            for generation, added in done
        ],
    )
    output.line()
