"""Python entry point ``optimize``: runs the job in a child process, so that it ends in time."""

from __future__ import annotations

import math
import pickle  # nosec B403: only what a child of this process wrote into its own directory is read
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, cast

from superopt.journeys.in_process import Result
from superopt.journeys.supervision import OPTIMIZE, Job, Outcome, run_job
from superopt.onnx_io import LoweredModel, ModelSource, load_model
from superopt.optimizer import Progress, Report
from superopt.optimizer.pipeline.report import (
    CostSummary,
    EquivalenceSummary,
    ModelSummary,
    OpaqueNode,
    RuleCounts,
    SearchSummary,
    section_of,
)
from superopt.optimizer.pipeline.runnable import loads
from superopt.options import DEFAULTS, Options
from superopt.substitution_db.rules.versions import PublishedRules

ProgressCallback = Callable[[Progress], None]


def optimize(
    model: ModelSource,
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
    inputs: str | Path | None = DEFAULTS.inputs,
    tolerance: float | None = DEFAULTS.tolerance,
    keep: Sequence[str] = DEFAULTS.keep,
    exclude_rules: Sequence[str] = DEFAULTS.exclude_rules,
    memory_limit: int | None = DEFAULTS.memory_limit,
    runtime: str = DEFAULTS.runtime,
    cluster: str | Path | None = DEFAULTS.cluster,
    database: str | None = None,
    progress: ProgressCallback | None = None,
) -> Result:
    """An equivalent model that is measurably better, or the original.

    ``model`` is a path, bytes, a ModelProto or an onnx-ir model; ``database`` is the URL of rules and costs.
    All others are the options of ``superopt.options``: ``budget`` is the wall time in seconds from the call
    to the written file; ``dims`` are sizes of symbolic dimensions, with which the model is priced, checked
    and timed (others are guessed). ``freeze`` are sizes for which alone the result is made, ``"all"`` those
    of ``inputs``. ``cluster`` is a cluster description file or the name of a known machine; the result then
    has a plan for all its devices, chosen by predicted cost.

    The work runs in a child process, which is killed if it exceeds its time or ``progress``, called in this
    process, raises; the original is then returned, with the reason in the report. Raises InvalidModelError,
    InvalidOptionError, MissingServiceError.
    """
    started = time.monotonic()
    options = Options(
        objective=objective,
        target=target,
        search=search,
        budget=budget,
        max_candidates=max_candidates,
        alpha=alpha,
        seed=seed,
        threads=threads,
        dims=dims,
        freeze=freeze,
        inputs=None if inputs is None else Path(inputs),
        tolerance=tolerance,
        keep=tuple(keep),
        exclude_rules=tuple(exclude_rules),
        memory_limit=memory_limit,
        runtime=runtime,
        cluster=None if cluster is None else str(cluster),
    )
    directory = Path(tempfile.mkdtemp(prefix="superopt-"))
    remove = partial(shutil.rmtree, directory, ignore_errors=True)
    is_needed = False
    try:
        written, objects = directory / "optimized.onnx", directory / "report"
        job = Job(
            model=_as_file(model, directory),
            output=written,
            options=options.to_request(),
            budget=budget,
            started=started,
            database=database,
            extras={"machine": options.cluster, "objects": str(objects)},
            function=OPTIMIZE,
        )
        outcome = run_job(job, lambda state: None if progress is None else progress(_progress(state)))
        lowered = LoweredModel.of_source(load_model(written, loads), {})
        is_needed = lowered.source.has_external_data
        if is_needed:  # keep the directory while its model is referenced
            weakref.finalize(lowered.source, remove)
        if outcome.answer is None:
            return Result(lowered, _fallback(outcome, lowered.node_count), PublishedRules(None, "", {}))
        report, library = cast("tuple[Report, PublishedRules]", pickle.loads(objects.read_bytes()))  # nosec B301: our own
        return Result(lowered, report, library)
    finally:
        if not is_needed:
            remove()


def _as_file(model: ModelSource, directory: Path) -> Path:
    """The model as a file, written if necessary."""
    if isinstance(model, str | Path):
        return Path(model)
    path = directory / "the model"
    if isinstance(model, bytes):
        path.write_bytes(model)
    else:
        LoweredModel.of_source(load_model(model, loads), {}).save(path)
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
    )
