"""Problems as HTML, for people who open an address in a browser."""

from __future__ import annotations

import html
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Template

PROBLEM_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HTML = "text/html"
_DOCUMENTS = ("application/problem+json", "application/json", "*/*")


def prefers_html(accept: str) -> bool:
    """Whether an ``Accept`` header prefers HTML to JSON, as those of browsers do when a person opens an
    address.
    """
    qualities = dict(map(_quality, accept.split(",")))
    return qualities.get(_HTML, 0.0) > max(qualities.get(kind, 0.0) for kind in _DOCUMENTS)


def problem_page(document: Mapping[str, object]) -> str:
    """The page of a problem document."""
    detail = str(document["detail"])
    values = {**document, "detail": detail[:1].upper() + detail[1:]}
    return _template().substitute({name: html.escape(str(value)) for name, value in values.items()})


@cache
def _template() -> Template:
    return Template((Path(__file__).parent / "files" / "problem.html").read_text(encoding="utf-8"))


def _quality(entry: str) -> tuple[str, float]:
    kind, *parameters = (part.strip().lower() for part in entry.split(";"))
    given = next((part[2:] for part in parameters if part.startswith("q=")), "1")
    try:
        return kind, float(given)
    except ValueError:
        return kind, 0.0
