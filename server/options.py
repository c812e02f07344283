"""Options of an optimization over HTTP: those of ``superopt.options`` that the service's settings allow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import cast

from superopt.option import MOST_CHARACTERS, MOST_ENTRIES, Mismatch, Option, Surface
from superopt.option_table import OptionTable
from superopt.options import DEFAULTS, offered, wrong_options
from superopt.server.http.problems import Problem, sentence
from superopt.server.problem_types import ProblemType
from superopt.server.settings import Settings
from superopt.substitution_db.store.records import JsonObject

_NO_PATH = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""The target is a device or the name of a cost profile; files on the server are not accepted."""

_NAME: Mapping[str, object] = {"type": "string", "minLength": 1, "maxLength": MOST_CHARACTERS}


def service_options(settings: Settings) -> OptionTable:
    """The options that can be used under these settings."""
    table = dict(offered(Surface.HTTP))
    most = settings.max_job_seconds
    table["budget"] = replace(table["budget"], most=most, default=min(DEFAULTS.budget, most))
    table["target"] = replace(table["target"], pattern=_NO_PATH)
    table["freeze"] = replace(table["freeze"], word="")
    if settings.plans_clusters:
        return table
    return {
        name: replace(
            option, choices=tuple(replace(one, cluster=one.device) for one in option.choices if one.device)
        )
        for name, option in table.items()
    }


def options_schema(settings: Settings) -> dict[str, object]:
    """The JSON schema of the options that can be used under these settings."""
    return {
        "type": "object",
        "title": "OptimizationOptions",
        "description": "The options of an optimization; omitted options have their defaults.",
        "additionalProperties": False,
        "properties": {name: _schema(option) for name, option in service_options(settings).items()},
        "examples": [{"budget": 30, "dim": {"batch": 8}}],
    }


def option_fields(settings: Settings) -> list[dict[str, object]]:
    """The options as form fields for the page."""
    table = service_options(settings).values()
    return [_form_field(one) for one in table]


def _form_field(option: Option) -> dict[str, object]:
    own = {name: value for name, value in asdict(option).items() if name != "surfaces"}
    return {**own, "members": [_form_field(member) for member in option.members]}


def parse_options(text: bytes, settings: Settings, *, has_cluster: bool) -> JsonObject:
    """Parses options from JSON text, without defaults; the budget is capped at the time limit of a job.
    Raises Problem if they are invalid.
    """
    try:
        content: object = json.loads(text.decode() or "{}", object_pairs_hook=_with_each_name_once)
    except UnicodeDecodeError as error:
        raise Problem(ProblemType.OPTIONS, f"options: not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise Problem(ProblemType.OPTIONS, "options: nested too deep") from error
    except ValueError as error:
        raise Problem(ProblemType.OPTIONS, f"options: not JSON: {error}") from error
    table = service_options(settings)
    found = (
        wrong_options(table, cast("JsonObject", content), is_cluster=has_cluster)
        if isinstance(content, dict)
        else [Mismatch("", "an object", content)]
    )
    errors = [{"field": wrong.place, "detail": wrong.detail} for wrong in found]
    if any("\0" in name for name in _texts(cast("object", content))):
        errors.append({"field": "", "detail": "a text has a NUL character"})
    if errors:
        raise Problem(ProblemType.OPTIONS, f"options: {sentence(errors)}", errors=errors)
    given = cast("JsonObject", content)
    budget = table["budget"].default
    return given if budget == DEFAULTS.budget else {"budget": budget, **given}


def _texts(value: object) -> Iterator[str]:
    """Each text in a JSON value, names included."""
    match value:
        case str():
            yield value
        case list():
            for part in cast("list[object]", value):
                yield from _texts(part)
        case dict():
            for name, part in cast("JsonObject", value).items():
                yield name
                yield from _texts(part)
        case _:
            pass


def _with_each_name_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object; raises ValueError if it has a name twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is given twice")
    return found


def _schema(option: Option) -> dict[str, object]:
    limits = {"minimum": option.least, "exclusiveMinimum": option.above, "maximum": option.most}
    bounds = {name: limit for name, limit in limits.items() if limit is not None}
    names = [one.name for one in option.choices]
    match option.kind:
        case "number" | "integer":
            schema: dict[str, object] = {"type": option.kind, **bounds}
            if option.word:
                schema = {"anyOf": [schema, {"const": option.word}]}
        case "flag":
            schema = {"type": "boolean"}
        case "names":
            schema = {"type": "array", "items": _NAME, "maxItems": MOST_ENTRIES}
        case "sizes":
            size = {"type": "integer", **bounds}
            most = {"propertyNames": _NAME, "maxProperties": MOST_ENTRIES}
            schema = {"type": "object", "additionalProperties": size, **most}
        case "settings":
            members = {member.name: _schema(member) for member in option.members}
            schema = {"type": "object", "additionalProperties": False, "properties": members}
        case _:
            schema = {"type": "string", **({"enum": names} if names else {"pattern": option.pattern})}
    if option.optional:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "default": option.default, "description": option.description}
