"""Command superopt train: runs a training step on samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.output import JsonOption, NoDatabaseOption, Output, destination, several, shown
from superopt.cli.progress import Status, followed
from superopt.errors import InvalidOptionError
from superopt.files import require_not_read, require_writable

if TYPE_CHECKING:
    from superopt.training import TrainingProgress, TrainingResult


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("train")(train)


def train(
    step: Annotated[
        Path,
        typer.Argument(
            help="The training step, an ONNX model as `superopt train-graph` writes it.", metavar="STEP"
        ),
    ],
    data: Annotated[
        Path,
        typer.Option(
            help="Samples: a numpy archive (.npz) of an array for each data input, first axis the samples."
        ),
    ],
    steps: Annotated[int, typer.Option(help="Steps in all, those before a resumed checkpoint included.")],
    batch_size: Annotated[
        int | None, typer.Option(help="Samples per step; default: what the step fixes, else 32.")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="The learning rate, where it is an input of the step.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the order of samples and of random masks; default: 0.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Write all states to this file, in safetensors format. It is new, but for --resume.",
            metavar="FILE",
        ),
    ] = None,
    checkpoint_every: Annotated[
        str,
        typer.Option(
            help="How often, besides at the end: a number of steps (100) or a time in seconds (30s).",
            metavar="INTERVAL",
        ),
    ] = "60s",
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the checkpoint, with the same losses.")
    ] = False,
    threads: Annotated[int | None, typer.Option(help="Threads of the runtime; default: all cores.")] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Put the trained weights into this inference model, written to --output.", metavar="MODEL"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            *("--output", "-o"),
            help="The trained model to write; - is standard output.",
            parser=destination,
            metavar="FILE",
        ),
    ] = None,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train: run a training step on samples, with checkpoints, in ONNX Runtime."""
    from superopt.optimizer.training.checkpoint import parse_interval
    from superopt.training import Step
    from superopt.training import train as run_training

    del database
    output = Output.beside(as_json, out)
    interval = parse_interval(checkpoint_every)
    _require_files(checkpoint, into, out, resumes=resume)
    require_not_read(
        {"checkpoint": checkpoint, "output": out}, {"training step": step, "file of samples": data}
    )
    require_not_read({"checkpoint": checkpoint, "output": out}, {"inference model": into})
    if checkpoint is not None and not resume and checkpoint.is_file() and checkpoint.stat().st_size:
        raise InvalidOptionError(
            f"checkpoint: expected a new file, and {checkpoint} exists; --resume continues from its states"
        )
    loaded = Step(step, threads=threads)
    if into is not None:
        loaded.trained(into)  # a model that does not fit is found before training
    course = _Course(steps)
    with followed(course.status):
        result = run_training(
            loaded,
            data,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            seed=seed,
            checkpoint=checkpoint,
            checkpoint_every=interval,
            resume=checkpoint if resume else None,
            progress=course,
        )
    if into is not None and out is not None:
        loaded.save_into(into, out)
    output.document(_document(step, result, out))
    output.pairs(_summary(result, out))


def _require_files(checkpoint: Path | None, into: Path | None, out: Path | None, *, resumes: bool) -> None:
    """Raises InvalidOptionError unless the files go together and can be written."""
    if resumes and checkpoint is None:
        raise InvalidOptionError("resume: expected --checkpoint with the file to continue from")
    if (into is None) != (out is None):
        raise InvalidOptionError(
            "into: expected --into MODEL together with --output FILE, got only "
            + ("--into" if out is None else "--output")
        )
    for path in (checkpoint, out):
        if path is not None:
            require_writable(path)
    if checkpoint is not None and out is not None and checkpoint.resolve() == out.resolve():
        raise InvalidOptionError(f"{out}: expected a file of its own, and the checkpoint is the same one")


@dataclass
class _Course:
    """The last step that was done."""

    steps: int
    last: TrainingProgress | None = None

    def __call__(self, progress: TrainingProgress) -> None:
        self.last = progress

    def status(self) -> Status:
        """What is shown of it."""
        last = self.last
        if last is None:
            return Status("training", total=self.steps)
        detail = f"step {last.step} of {last.steps}, loss {last.loss:.6g}, {last.milliseconds:.3g} ms"
        return Status("training", last.step, last.steps, detail)


def _document(step: Path, result: TrainingResult, out: Path | None) -> Mapping[str, object]:
    position = result.position
    return {
        "step": str(step),
        "steps": position.step,
        "resumed_at": result.resumed_at,
        "epoch": position.epoch,
        "batch_size": result.batch_size,
        "seed": result.seed,
        "losses": result.losses,
        "milliseconds": None if math.isnan(result.milliseconds) else result.milliseconds,
        "seconds": result.seconds,
        "peak_bytes": result.peak_bytes,
        "checkpoint": None if result.checkpoint is None else str(result.checkpoint),
        "trained": None if out is None else str(out),
    }


def _summary(result: TrainingResult, out: Path | None) -> Mapping[str, object]:
    done = len(result.losses)
    resumed = f", resumed after {result.resumed_at}" if result.resumed_at else ""
    lines: dict[str, object] = {
        "steps": f"{several(done, 'step')} of batch size {result.batch_size}{resumed}, "
        f"{several(result.position.epoch, 'epoch')} complete"
    }
    if done:
        lines["loss"] = f"{result.losses[0]:.6g} at first, {result.losses[-1]:.6g} at last"
        lines["speed"] = (
            f"{result.milliseconds:.3g} ms per step (median), {done / result.seconds:.4g} steps/s"
        )
    lines["peak memory"] = f"{result.peak_bytes / 1e6:.0f} MB"
    if result.checkpoint is not None:
        lines["checkpoint"] = f"{result.checkpoint}, states after step {result.position.step}"
    if out is not None:
        lines["trained model"] = shown(out)
    return lines
