"""What can be asked of an optimization over HTTP; the names are those of the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from superopt.server.http.problems import Problem, field_errors, sentence
from superopt.server.problem_types import ProblemType
from superopt.server.settings import Settings
from superopt.substitution_db.store.records import JsonObject
from superopt.threads import MOST_THREADS

_OF_CLUSTERS = ("latency", "throughput", "training")
"""What a plan for several devices is judged by."""

_SIMULATED = frozenset(("training",))
"""What means nothing without such a plan."""

Objective: TypeAlias = Literal["latency", "throughput", "training", "memory", "flops", "traffic", "launches"]
Search: TypeAlias = Literal["auto", "backtracking", "regions", "beam"]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]


OBJECTIVES: tuple[str, ...] = get_args(Objective)
SEARCHES: tuple[str, ...] = get_args(Search)
"""The strategies of the optimizer, which is not loaded here."""


class OptimizationOptions(BaseModel):
    """The options of an optimization; what is left out has the default of ``superopt optimize``."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        json_schema_extra={"examples": [{"budget": 30, "dim": {"batch": 8}}]},
    )

    objective: Objective = "latency"
    target: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = "cpu"
    """A device or the name of a cost profile."""
    search: Search = "auto"
    budget: Annotated[float, Field(gt=0)] = 60.0
    """Seconds for everything, measuring and checking included."""
    max_candidates: Annotated[int | None, Field(ge=1)] = None
    alpha: Annotated[float, Field(ge=1, le=10)] = 1.05
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    threads: Annotated[int | None, Field(ge=1, le=MOST_THREADS)] = None
    dim: Annotated[dict[Name, Annotated[int, Field(ge=1)]], Field(max_length=100)] = {}
    """Sizes of open dimensions at which the model is priced, checked and timed; others are guessed."""
    tolerance: Annotated[float | None, Field(gt=0)] = None
    keep: Annotated[list[Name], Field(max_length=10_000)] = []
    """Names of nodes that stay as they are."""
    exclude_rule: Annotated[list[Name], Field(max_length=10_000)] = []
    """Ids of rules that are not used."""
    runtime: Literal["portable", "onnxruntime"] | None = None
    """Whose operators may be written; standard ONNX ones are all that is written so far."""

    @model_validator(mode="before")
    @classmethod
    def _are_options(cls, given: object) -> object:
        names = cast("Iterable[object]", given) if isinstance(given, dict) else ()
        known = sorted(cls.model_fields)
        unknown = [str(name)[:50] for name in names if name not in known]
        if unknown:
            given_and_known = {"name": unknown[0], "known": ", ".join(known)}
            raise PydanticCustomError("no_option", "{name} is no option; there are {known}", given_and_known)
        return cast("object", given)


def options_schema(settings: Settings) -> dict[str, object]:
    """The JSON schema of the options that can be used under these settings."""
    schema = OptimizationOptions.model_json_schema(ref_template="#/components/schemas/{model}")
    properties = cast("dict[str, dict[str, object]]", schema["properties"])
    budget = properties["budget"]
    budget |= {
        "maximum": settings.max_job_seconds,
        "default": min(cast("float", budget["default"]), settings.max_job_seconds),
    }
    if not settings.plans_clusters:
        objectives = cast("list[str]", properties["objective"]["enum"])
        properties["objective"]["enum"] = [name for name in objectives if name not in _SIMULATED]
    return schema


def refuse_for_one_device(options: JsonObject) -> None:
    """Ends the request if the options are about a cluster, of which there is none."""
    objective = options.get("objective")
    if objective in _SIMULATED:
        detail = f"options: objective: {objective} is simulated on devices that are described: send a cluster"
        raise Problem(ProblemType.OPTIONS, detail)


def refuse_for_cluster(options: JsonObject) -> None:
    """Ends the request if the options cannot be used for a cluster."""
    objective = options.get("objective", "latency")
    if objective not in _OF_CLUSTERS:
        detail = f"options: objective: for a cluster one of {', '.join(_OF_CLUSTERS)}, got {objective}"
        raise Problem(ProblemType.OPTIONS, detail)


def parse_options(text: bytes, max_seconds: float) -> dict[str, object]:
    """The options that the text (JSON) gives, without defaults, but never with a budget over ``max_seconds``;
    ends the request if they cannot be used.
    """
    try:
        content: object = json.loads(text or b"{}")
    except (ValueError, RecursionError) as error:
        raise Problem(ProblemType.OPTIONS, f"options: not JSON: {error}") from error
    try:
        options = OptimizationOptions.model_validate(content)
    except ValidationError as error:
        errors = field_errors(error)
        raise Problem(ProblemType.OPTIONS, f"options: {sentence(errors)}", errors=errors) from error
    given = options.model_dump(exclude_unset=True)
    if options.budget <= max_seconds:
        return given
    if "budget" in given:
        raise Problem(
            ProblemType.OPTIONS, f"options: budget: at most {max_seconds:g} seconds, got {options.budget:g}"
        )
    return {**given, "budget": max_seconds}
