"""Child process functions of the page: those that read models or import large packages."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import cast

from superopt.onnx_io.outline import outlines
from superopt.optimizer.explanation.page import html_of
from superopt.substitution_db.store.records import JsonObject

MODEL = "model.onnx"


def write_report_page(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """Renders the report file ``report`` as HTML into the file ``page``."""
    del progress
    report = cast("JsonObject", json.loads(Path(str(arguments["report"])).read_text(encoding="utf-8")))
    Path(str(arguments["page"])).write_text(html_of(report), encoding="utf-8")
    return {}


def write_outlines(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """Writes outlines of the models ``before`` and ``after`` (which may be an archive), of at most ``most``
    nodes if given.

    Writes ``before.onnx`` and ``after.onnx`` into ``directory``; returns the names of nodes that differ.
    """
    del progress
    directory, after = Path(str(arguments["directory"])), Path(str(arguments["after"]))
    if zipfile.is_zipfile(after):
        with zipfile.ZipFile(after) as archive:
            after = Path(archive.extract(MODEL, directory))
    found = asdict(outlines(Path(str(arguments["before"])), after, cast("int | None", arguments["most"])))
    for side in ("before", "after"):
        (directory / f"{side}.onnx").write_bytes(cast("bytes", found.pop(side)))
    return found
