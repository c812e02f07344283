"""Reports as files: JSON that is read again, and pages in HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from superopt import optimizer
from superopt.errors import InvalidFileError
from superopt.files import require_report_path, write_atomically
from superopt.optimizer.pipeline.reporting.report import SCHEMA


def read_report(path: Path) -> Mapping[str, object]:
    """Reads a report as JSON values. Raises InvalidFileError."""
    return _of_schema(_read_object(path, "a report"), path)


def read_plan(path: Path) -> Mapping[str, object]:
    """Reads a report with a plan, or the operators of a plan alone, which need no schema. Raises
    InvalidFileError."""
    content = _read_object(path, "a report or a plan")
    if "operators" in content and "schema" not in content:
        return content
    return _of_schema(content, path)


def _read_object(path: Path, expected: str) -> Mapping[str, object]:
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidFileError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(f"{path}: expected {expected} in JSON: {error}") from None
    if not isinstance(content, dict):
        raise InvalidFileError(f"{path}: expected {expected}, a JSON object")
    return cast("Mapping[str, object]", content)


def _of_schema(report: Mapping[str, object], path: Path) -> Mapping[str, object]:
    if report.get("schema") != SCHEMA:
        raise InvalidFileError(f"{path}: expected a report of schema {SCHEMA}, got {report.get('schema')!r}")
    return report


def write_report(report: Mapping[str, object], path: Path) -> int:
    """Writes a report atomically, as JSON, or as HTML if the path ends in .html. Returns its size in bytes.

    Raises InvalidFileError for an invalid report, InvalidOptionError for a path with another ending.
    """
    require_report_path(path)
    if path.suffix.lower() == ".html":
        return write_page(report, path)
    content = (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode()
    write_atomically(path, content)
    return len(content)


def write_page(report: Mapping[str, object], path: Path) -> int:
    """Writes a report as HTML regardless of the path's ending; otherwise as ``write_report``."""
    content = optimizer.html_of(report).encode()
    write_atomically(path, content)
    return len(content)
