"""Python entry point ``optimize``: runs the job in a child process, so that it ends in time."""

from __future__ import annotations

import math
import pickle  # nosec B403: only what a child of this process wrote into its own directory is read
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, cast

from superopt.errors import InvalidOptionError
from superopt.journeys.given_inputs import GivenInputs, as_archive
from superopt.journeys.result import Result, WrittenModel, model_of
from superopt.journeys.supervision import OPTIMIZE, Job, Outcome, run_job
from superopt.journeys.torch_export import TorchModule, exported, is_torch_module
from superopt.onnx_io import LoweredModel, ModelSource, load_model
from superopt.optimizer import Progress, Report
from superopt.optimizer.pipeline.reporting.report import (
    CostSummary,
    EquivalenceSummary,
    ModelSummary,
    OpaqueNode,
    RuleCounts,
    SearchSummary,
    section_of,
)
from superopt.optimizer.pipeline.runnable import why_refused
from superopt.options import DEFAULTS, Options
from superopt.substitution_db.rules.versions import PublishedRules

OptimizableModel: TypeAlias = "ModelSource | WrittenModel | TorchModule"
ProgressCallback: TypeAlias = Callable[[Progress], None]

_MODEL = "the model"
"""What messages and reports call a model that is not in a file."""


def optimize(
    model: OptimizableModel,
    *,
    objective: str = DEFAULTS.objective,
    target: str = DEFAULTS.target,
    search: str = DEFAULTS.search,
    budget: float = DEFAULTS.budget,
    max_candidates: int | None = DEFAULTS.max_candidates,
    alpha: float = DEFAULTS.alpha,
    seed: int = DEFAULTS.seed,
    threads: int | None = DEFAULTS.threads,
    dims: Mapping[str, int] = DEFAULTS.dims,
    freeze: Mapping[str, int] | Literal["all"] = DEFAULTS.freeze,
    inputs: GivenInputs | None = DEFAULTS.inputs,
    tolerance: float | None = DEFAULTS.tolerance,
    keep: Sequence[str] = DEFAULTS.keep,
    exclude_rules: Sequence[str] = DEFAULTS.exclude_rules,
    exact_rounding: bool = DEFAULTS.exact_rounding,
    memory_limit: int | None = DEFAULTS.memory_limit,
    runtime: str = DEFAULTS.runtime,
    fp16: bool = DEFAULTS.fp16,
    opset: int | None = DEFAULTS.opset,
    inline_functions: bool = DEFAULTS.inline_functions,
    cut_inputs: Sequence[str] = DEFAULTS.cut_inputs,
    cut_outputs: Sequence[str] = DEFAULTS.cut_outputs,
    training: Mapping[str, object] | None = DEFAULTS.training,
    cluster: str | Path | None = DEFAULTS.cluster,
    strategy: str | None = DEFAULTS.strategy,
    plan: str | Path | None = None,
    example_inputs: object = None,
    database: str | None = None,
    progress: ProgressCallback | None = None,
) -> Result:
    """An equivalent model that is measurably better, or the given one with the reason.

    The work runs in a child process. If that crashes or exceeds its time, the given model is returned, with
    the reason in the report. It is ended by an interrupt, and by an exception of ``progress``; both come out
    of this call.

    Args:
        model: A path, the bytes of a file, an ``onnx.ModelProto``, an ``onnx_ir.Model``, a ``Result``, or a
            ``torch.nn.Module`` with its ``example_inputs``.
        objective: What to minimise: ``latency``, ``throughput``, ``flops``, ``memory``, ``traffic``,
            ``launches``, ``training``, which optimises the training step of the model in its place; with a
            cluster ``latency``, ``throughput``, ``training``.
        target: The device: ``cpu``, ``cuda``, an imported cost profile or the file of one.
        search: The strategy: ``auto``, ``backtracking``, ``regions``, ``beam``; with a cluster ``auto``,
            ``none``.
        budget: Seconds for everything. The export of a PyTorch module comes before.
        max_candidates: End the search after so many candidates; None for no limit.
        alpha: Explore graphs that cost up to this many times the best; at least 1.
        seed: Seed of everything random.
        threads: Threads of the runtime; None for all physical cores.
        dims: Sizes of symbolic dimensions at which to price, check and time; others are guessed.
        freeze: Sizes of symbolic dimensions for which alone the result is made; ``"all"`` takes those of
            ``inputs``.
        inputs: Arrays by the names of inputs, or an .npz file of them, used to check and time besides random
            ones.
        tolerance: Error allowed beyond the model's own; None for one by element type.
        keep: Names of nodes that stay as they are.
        exclude_rules: Ids of rules that are not used.
        exact_rounding: Whether to leave out rules whose rounding errors are larger than the original's.
        memory_limit: Bytes for weights and tensors, of each device; None for no limit.
        runtime: Whose operators may be written: ``portable`` or ``onnxruntime``.
        fp16: Whether to convert to float16 where that is equal within 1e-2 and faster, or, for the objective
            ``memory``, smaller.
        opset: The version of the standard operators to convert the model to; None keeps its own.
        inline_functions: Whether to put the bodies of the model's functions in place of their calls.
        cut_inputs: Tensors that the part of the model begins at that is optimised and returned.
        cut_outputs: Tensors that the part ends at.
        training: How the training step is built: options of ``superopt train-graph`` by their names in JSON.
        cluster: The file of a cluster description or a known machine, as ``dgx-h100:4``. The result then has
            a plan for all devices, chosen by predicted cost.
        strategy: With a cluster and a training step, how gradients are summed and states updated: ``ddp``,
            ``zero1``, ``zero2``, ``zero3`` (or ``fsdp``), ``ps``; ``ddp`` with fused kernels and collectives:
            ``disco``, ``joint-fusion``; one of AutoDist's builders, ``auto``, or the file of a strategy. None
            for what is predicted to be fastest.
        plan: With a cluster, the report whose plan is evaluated in place of a search.
        example_inputs: For a PyTorch module the arguments of its ``forward``: a tensor, a tuple, or a dict by
            name. The model is made for their shapes.
        database: URL of the database of rules and costs; None for ``SUPEROPT_DATABASE_URL``, or a file in the
            user's data directory.
        progress: Called in this process with a ``superopt.Progress`` about once a second.

    Raises:
        InvalidModelError: The model cannot be read, run or exported.
        InvalidOptionError: An argument has a wrong type or value.
        InvalidFileError: A file of ``inputs``, ``cluster`` or ``plan`` cannot be read.
        MissingServiceError: The target is not there.
    """
    with _directory() as directory:
        options = Options.from_python(
            {
                "objective": objective,
                "target": target,
                "search": search,
                "budget": budget,
                "max_candidates": max_candidates,
                "alpha": alpha,
                "seed": seed,
                "threads": threads,
                "dims": dims,
                "freeze": freeze,
                "inputs": as_archive(inputs, directory.path),
                "tolerance": tolerance,
                "keep": keep,
                "exclude_rules": exclude_rules,
                "exact_rounding": exact_rounding,
                "memory_limit": memory_limit,
                "runtime": runtime,
                "fp16": fp16,
                "opset": opset,
                "inline_functions": inline_functions,
                "cut_inputs": cut_inputs,
                "cut_outputs": cut_outputs,
                "training": training,
                "cluster": str(cluster) if isinstance(cluster, Path) else cluster,
                "strategy": strategy,
            }
        )
        _require_types(cluster=cluster, plan=plan, database=database, progress=progress)
        if is_torch_module(model):
            model = exported(model, example_inputs)
        elif example_inputs is not None:
            raise InvalidOptionError(
                "example_inputs: expected None for a model that is no torch.nn.Module, got "
                f"{example_inputs!r}"
            )
        started = time.monotonic()
        path = _as_file(model_of(cast("ModelSource | WrittenModel", model)), directory.path)
        job = Job(
            model=path,
            output=directory.path / "optimized.onnx",
            options=options.to_request(),
            budget=options.budget,
            started=started,
            database=database,
            extras={
                "machine": options.cluster,
                "plan": None if plan is None else str(plan),
                "objects": str(directory.path / "report"),
            },
            function=OPTIMIZE,
            called="" if isinstance(model, str | Path) else _MODEL,
        )
        return _result(job, progress, directory)


def _require_types(*, cluster: object, plan: object, database: object, progress: object) -> None:
    """Raises InvalidOptionError for what is not among the options."""
    if plan is not None and not isinstance(plan, str | Path):
        raise InvalidOptionError(f"plan: expected the path of a report, got {plan!r}")
    if plan is not None and cluster is None:
        raise InvalidOptionError("plan: expected a cluster with it, got none")
    if database is not None and not isinstance(database, str):
        raise InvalidOptionError(f"database: expected a URL, as sqlite:///rules.db, got {database!r}")
    if progress is not None and not callable(progress):
        raise InvalidOptionError(f"progress: expected a function of a superopt.Progress, got {progress!r}")


class _Directory:
    """A temporary directory; ``keep_for`` an object, it is removed with that."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="superopt-"))
        self._remove = partial(shutil.rmtree, self.path, ignore_errors=True)
        self._is_kept = False

    def keep_for(self, user: object) -> None:
        self._is_kept = True
        weakref.finalize(user, self._remove)

    def close(self) -> None:
        if not self._is_kept:
            self._remove()


@contextmanager
def _directory() -> Generator[_Directory]:
    directory = _Directory()
    try:
        yield directory
    finally:
        directory.close()


def _result(job: Job, progress: ProgressCallback | None, directory: _Directory) -> Result:
    """Runs the job. The directory is kept while the model refers to files in it."""
    outcome = run_job(job, lambda state: None if progress is None else progress(_progress(state)))
    written = directory.path / "optimized.onnx"
    lowered = LoweredModel.of_source(load_model(written, why_refused), {})
    if lowered.source.has_external_data:
        directory.keep_for(lowered.source)
    if outcome.answer is None:
        return Result(lowered, _fallback(outcome, lowered.node_count), PublishedRules(None, "", {}))
    objects = (directory.path / "report").read_bytes()
    report, library = cast("tuple[Report, PublishedRules]", pickle.loads(objects))  # nosec B301: our own
    return Result(lowered, report, library)


def _as_file(model: ModelSource, directory: Path) -> Path:
    """The model as a file, written if necessary."""
    if isinstance(model, str | Path):
        return Path(model)
    path = directory / _MODEL
    if isinstance(model, bytes):
        path.write_bytes(model)
    else:
        LoweredModel.of_source(load_model(model, why_refused), {}).save(path)
    return path


def _progress(state: Mapping[str, object]) -> Progress:
    numbers = {
        name: math.nan if value is None and name != "until" else value for name, value in state.items()
    }
    return Progress(**numbers)  # pyright: ignore[reportArgumentType]


def _fallback(outcome: Outcome, nodes: int) -> Report:
    """The report of a job whose process wrote none."""
    values = {name: section_of(outcome.report, name) for name in outcome.report}
    opaque = tuple(OpaqueNode(**node) for node in cast("list[dict[str, str]]", values["model"]["opaque"]))
    known = {"nodes_before": nodes, "nodes_after": nodes, "opaque": opaque, "warnings": ()}
    return Report(
        model=ModelSummary(**{**values["model"], **known}),  # pyright: ignore[reportArgumentType]
        options=values["options"],
        rules=RuleCounts(**values["rules"]),  # pyright: ignore[reportArgumentType]
        cost=CostSummary(**values["cost"]),  # pyright: ignore[reportArgumentType]
        measured=None,
        equivalence=EquivalenceSummary(**values["equivalence"]),  # pyright: ignore[reportArgumentType]
        search=SearchSummary(**{**values["search"], "curve": ()}),  # pyright: ignore[reportArgumentType]
        canonical=(),
        trace=(),
        fusion=(),
        returned="original",
        why=str(outcome.report["why"]),
        training=values.get("training"),
    )
