"""What the main job does in its process (``superopt.supervision``): from a file to a file and a report."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import cast

from optimizer import Progress
from superopt import api
from superopt.child import JsonObject
from superopt.collecting import seldom_collecting
from superopt.machines import described_cluster, find_cluster
from superopt.onnx_io import LoweredModel, load_model

Tell = Callable[[JsonObject], None]


@seldom_collecting()
def optimized(arguments: JsonObject, progress: Tell) -> api.Result:
    """The result, not yet written. ``arguments`` are those of ``supervision.Job``; ``machine`` names a known
    cluster or the file of one, ``plan`` a report with a plan.

    Tells what is known of the model as soon as it is, for the report that is written if nothing follows.
    """
    options = dict(cast("Mapping[str, object]", arguments["options"]))
    library = cast("int | None", options.pop("library_version", None))
    machine = cast("str | None", arguments.get("machine"))
    uploaded = cast("str | None", options.pop("cluster", None))
    cluster = described_cluster(uploaded) if machine is None else find_cluster(machine)
    if cluster is not None:
        options["cluster"] = cluster.name
    target, chosen = api.options_from_json(options)
    plan = cast("str | None", arguments.get("plan"))
    recorded = None if plan is None else api.read_report(Path(plan))

    def tell(state: Progress) -> None:
        progress({name: value if _is_json(value) else None for name, value in asdict(state).items()})

    def know(known: JsonObject) -> None:
        progress({"known": known})

    know({"options": chosen.to_json()})
    return api.optimize_with(
        Path(str(arguments["model"])),
        chosen,
        target=target,
        database=cast("str | None", arguments["database"]),
        progress=tell,
        started=cast("float", arguments["started"]),
        library=library,
        cluster=cluster,
        plan=recorded,
        know=know,
    )


def optimize(arguments: JsonObject, progress: Tell) -> JsonObject:
    """Writes the model, and for Python the report as objects where ``objects`` says; returns the report."""
    result = optimized(arguments, progress)
    if arguments["output"] is not None:
        result.save(str(arguments["output"]))
    objects = cast("str | None", arguments.get("objects"))
    if objects is not None:
        Path(objects).write_bytes(pickle.dumps((result.report, result.library)))
    return {"report": result.to_json()}


def copy(arguments: JsonObject, progress: Tell) -> JsonObject:
    """Writes a model as it is, its external data beside it."""
    del progress
    LoweredModel.of_source(load_model(Path(str(arguments["model"]))), {}).save(str(arguments["output"]))
    return {}


def page(arguments: JsonObject, progress: Tell) -> JsonObject:
    """Writes a report as a page."""
    del progress
    api.write_report(cast("JsonObject", arguments["report"]), Path(str(arguments["path"])))
    return {}


def _is_json(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
