"""Render a report as one self-contained HTML page, as a pure function of the report's JSON."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeAlias, cast

import jinja2

from superopt.equations import abbreviated, drawing, equation_of_region, parse_equation
from superopt.equations.drawing import description
from superopt.errors import InvalidEquationError, InvalidFileError
from superopt.ir.terms import Equation
from superopt.optimizer.explanation.amounts import amount, change, percent, scale_of, signed
from superopt.optimizer.explanation.inventory_rows import operator_rows, quantity_rows, uncounted_note
from superopt.optimizer.explanation.plot import curve_plot, interval_plot

Json: TypeAlias = "Mapping[str, object]"

_SCHEMA = 1
_PARTS = ("model", "options", "rules", "cost", "equivalence", "search")
"""Objects that every report contains."""

_MOST_PICTURES = 40
_REASONS = {
    "excluded": "excluded by you",
    "operator_set": "needs a newer operator set",
    "kept": "touches nodes you keep",
    "not_applicable": "does not apply here",
    "breaks_fusion": "would break a fusion",
    "costlier": "more costly",
    "no_gain": "makes no difference",
    "superseded": "a better rule took its place",
    "not_faster": "not faster when timed",
    "not_combined": "does not combine",
    "not_reached": "not reached in the budget",
    "not_priced": "not priced",
}


def html_of(report: Json) -> str:
    """The page for a report, given as ``Report.to_json`` returns it or as read from a file. Missing parts of
    older reports are left out. Raises InvalidFileError for JSON that is not a report."""
    if report.get("schema") != _SCHEMA:
        raise InvalidFileError(f"report: expected schema {_SCHEMA}, got {report.get('schema')!r}")
    for part in _PARTS:
        if not isinstance(report.get(part), dict):
            raise InvalidFileError(f"report: expected an object as {part}, got {report.get(part)!r}")
    try:
        return _template().render(_context(report))
    except (TypeError, ValueError, LookupError, AttributeError, jinja2.UndefinedError) as error:
        raise InvalidFileError(f"report: damaged, invalid value: {error}") from error


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("superopt.optimizer.explanation", "."),
        autoescape=True,
        undefined=jinja2.ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = cast("dict[str, object]", environment.filters)
    filters.update(abbreviated=abbreviated, amount=amount, change=change, signed=signed, percent=percent)
    return environment.get_template("page.html")


def _context(report: Json) -> dict[str, object]:
    cost, search = _object(report["cost"]), _object(report["search"])
    unit = str(cost["unit"])
    explanation = _object(report.get("explanation") or {})
    measured = _object(report.get("measured") or {})
    curve = [(float(s), float(c)) for s, c in cast("Sequence[Sequence[float]]", search.get("curve", ()))]
    kernels = _object(explanation.get("kernels") or {})
    sides = ("before",) if report["returned"] == "original" else ("before", "after")
    tables = [(side, _object(kernels[side])) for side in sides if side in kernels]
    unused = _objects(explanation.get("unused"))
    reasons = dict.fromkeys(str(rule["reason"]) for rule in unused)
    return {
        "report": report,
        "unit": unit,
        "unit_name": scale_of(1, unit)[1],
        "explanation": explanation,
        "measured": measured,
        "interval": _interval(measured),
        "headline": _headline(report, measured, cost),
        "curve": curve,
        "plot": curve_plot(curve, float(cast("float", search["seconds"])), unit),
        "gains": [_with_picture(rule, place) for place, rule in enumerate(_gains(report, explanation))],
        "canonical": Counter(str(s["rule"]) for s in _objects(report["trace"]) if s["kind"] != "rule"),
        "tried": [_with_picture(rule, 0) for rule in _objects(explanation.get("tried"))[:_MOST_PICTURES]],
        "regions": [_with_drawing(region) for region in _objects(explanation.get("regions"))],
        "tables": tables,
        "slowest": max(
            (float(cast("float", k["total"])) for _, t in tables for k in _objects(t["kernels"])), default=0.0
        ),
        "unused": unused,
        "reasons": {reason: _REASONS.get(reason, reason.replace("_", " ")) for reason in reasons},
        "options": {key: _written(value) for key, value in _object(report["options"]).items()},
        "versions": _object(report.get("versions") or {}),
        "sizes": _sizes(_object(report.get("sizes") or {})),
        **_inventory(_object(report.get("inventory") or {})),
    }


def _inventory(inventory: Json) -> Json:
    """What both models consist of, as rows; empty for a report without."""
    if not inventory:
        return {"inventory": (), "uncounted": ""}
    before, after = (_object(inventory[side]) for side in ("before", "after"))
    rows = (*quantity_rows(before, after), *operator_rows(before, after))
    return {"inventory": rows, "uncounted": uncounted_note(after)}


def _sizes(sizes: Json) -> Json:
    """The sizes of open dimensions to which the numbers refer; empty for a model without any."""
    if not sizes.get("priced"):
        return {}
    checked = cast("Sequence[object]", sizes.get("checked") or ())
    return {
        "priced": _written(sizes["priced"]),
        "checked": "; ".join(map(_written, checked)) or "–",
        "timed": _written(sizes.get("timed")),
        "guessed": _written(sizes.get("guessed")),
        "is_guessed": bool(sizes.get("guessed")),
        "differ": sizes.get("timed") is not None and sizes["timed"] != sizes["priced"],
        "request": str(sizes.get("request") or ""),
        "smaller": _smaller(_object(sizes.get("smaller") or {})),
    }


def _smaller(section: Json) -> str:
    """The speed-up at smaller sizes; empty where it was not measured."""
    return f"{cast('float', section['ratio']):.2f}× at {_written(section['sizes'])}" if section else ""


def _headline(report: Json, measured: Json, cost: Json) -> tuple[str, str]:
    """The outcome in two lines: a headline and a sentence."""
    if report["returned"] == "original":
        return "unchanged", "The original was returned."
    if measured:
        ratio = float(cast("float", measured["ratio"]))
        words = "as fast as the original" if ratio >= 1 else "the speed of the original"
        return f"{ratio:.2f}×", f"{words}, at guessed sizes" if _is_guessed(report) else words
    before, after = (float(cast("float", cost[side])) for side in ("before", "after"))
    return f"{before / after if after else 1:.2f}×", "less costly, as predicted"


def _is_guessed(report: Json) -> bool:
    return bool(_object(report.get("sizes") or {}).get("guessed"))


def _interval(measured: Json) -> str:
    if not measured:
        return ""
    low, high = cast("Sequence[float]", measured["interval"])
    return interval_plot(float(cast("float", measured["ratio"])), float(low), float(high))


def _gains(report: Json, explanation: Json) -> Sequence[Json]:
    """Gain of each rule; from the trace where a report has no explanation."""
    if explanation:
        return _objects(explanation["gains"])
    found: dict[str, dict[str, object]] = {}
    for step in _objects(report["trace"]):
        if step["kind"] != "rule":
            continue
        gain = float(cast("float", step["cost_before"])) - float(cast("float", step["cost_after"]))
        rule = found.setdefault(
            str(step["equation"]),
            {"rule": step["rule"], "equation": step["equation"], "times": 0, "predicted": 0.0},
        )
        rule["times"] = cast("int", rule["times"]) + 1
        rule["predicted"] = cast("float", rule["predicted"]) + gain
    return sorted(found.values(), key=lambda rule: -cast("float", rule["predicted"]))


def _with_picture(rule: Json, place: int) -> Json:
    try:
        equation = parse_equation(str(rule["equation"])) if place < _MOST_PICTURES else None
    except InvalidEquationError:  # an operator of another version
        equation = None
    return {**rule, "picture": None if equation is None else _picture(equation)}


def _with_drawing(region: Json) -> Json:
    equation = equation_of_region(region)
    return region if equation is None else {**region, "picture": _picture(equation)}


def _picture(equation: Equation) -> Mapping[str, str]:
    encoded = base64.b64encode(drawing(equation).encode()).decode()
    return {"source": f"data:image/svg+xml;base64,{encoded}", "text": description(equation)}


def _written(value: object) -> str:
    match value:
        case None:
            return "–"
        case list() | dict() if not value:
            return "–"
        case list():
            return ", ".join(map(str, cast("list[object]", value)))
        case dict():
            return " ".join(f"{key}={held}" for key, held in cast("dict[str, object]", value).items())
        case _:
            return str(value)


def _object(value: object) -> Json:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected an object, got {value!r:.60}")
    return cast("Json", value)


def _objects(value: object) -> Sequence[Json]:
    return [_object(item) for item in cast("Sequence[object]", value or ())]
