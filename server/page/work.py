"""What is done for the page in a child process, because it reads models or loads much."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import cast

from optimizer.explanation.page import html_of
from substitution_db.records import JsonObject
from superopt.onnx_io.outline import outlines

MODEL = "model.onnx"


def write_report_page(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """Makes the page of the report ``directory/report.json`` as ``directory/report.html``."""
    del progress
    directory = Path(str(arguments["directory"]))
    report = cast("JsonObject", json.loads((directory / "report.json").read_text(encoding="utf-8")))
    (directory / "report.html").write_text(html_of(report), encoding="utf-8")
    return {}


def write_outlines(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """Outlines the models ``directory/before`` and ``directory/after``, which may be an archive; of at most
    ``most`` nodes, where that is a number.

    Writes ``before.onnx`` and ``after.onnx``; returns the names of nodes that differ.
    """
    del progress
    directory = Path(str(arguments["directory"]))
    after = directory / "after"
    if zipfile.is_zipfile(after):
        with zipfile.ZipFile(after) as archive:
            after = Path(archive.extract(MODEL, directory))
    most = cast("int | None", arguments["most"])
    found = asdict(outlines(directory / "before", after, most))
    for side in ("before", "after"):
        (directory / f"{side}.onnx").write_bytes(cast("bytes", found.pop(side)))
    return found
