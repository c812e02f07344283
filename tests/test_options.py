"""The options of an optimization: every place where they are offered agrees with their one declaration."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pytest

import superopt
from superopt.cli.commands.optimize import optimize
from superopt.cli.commands.service.submit import submit
from superopt.errors import InvalidOptionError
from superopt.journeys.given_inputs import GivenInputs
from superopt.optimizer import Options
from superopt.optimizer.search import searches
from superopt.optimizer.search.protocol import SearchLimits
from superopt.option import Option, Surface
from superopt.options import DEFAULTS, OPTIONS, offered, options_table
from superopt.server.options import option_fields, options_schema, service_options
from superopt.server.settings import Settings
from superopt.step_options import ModelSettings, StepSettings, UpdateSettings

DOCS = Path(__file__).parent.parent / "docs"

COMMAND_LINE = {
    "number": float | None,
    "integer": int | None,
    "text": str | None,
    "names": list[str] | None,
    "sizes": list[str] | None,
    "file": Path | None,
    "flag": bool | None,
}
PYTHON = {
    "number": float,
    "integer": int,
    "text": str,
    "names": Sequence[str],
    "sizes": Mapping[str, int],
    "settings": Mapping[str, object],
    "file": str | Path,
    "flag": bool,
}
JSON = {
    "number": "number",
    "integer": "integer",
    "text": "string",
    "names": "array",
    "sizes": "object",
    "flag": "boolean",
    "settings": "object",
}


def _parameters(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)


def test_every_field_is_declared_as_an_option() -> None:
    assert [option.field for option in OPTIONS.values()] == [one.name for one in fields(Options)]
    for option in OPTIONS.values():
        assert getattr(DEFAULTS, option.field) == option.default
        assert option.help
        assert not option.help.endswith("."), option.name
        assert option.unset or not option.optional, option.name


def _flags(table: Mapping[str, Option]) -> dict[str, Option]:
    """Settings are flags one by one."""
    flags = (flag for option in table.values() for flag in option.members or (option,))
    return {flag.name: flag for flag in flags}


def test_the_commands_have_the_options() -> None:
    here, there = _parameters(optimize), _parameters(submit)
    words = {"context", "model", "server", "out", "plan", "portable", "dry_run", "report", "database"}
    words |= {"require_gain", "quiet", "verbose", "table"}
    assert here.keys() - words - {"as_json"} == _flags(offered(Surface.COMMAND_LINE)).keys()
    submitted = _flags(offered(Surface.HTTP))
    assert there.keys() - words - {"as_json", "key", "no_wait"} == submitted.keys() | {"cluster"}
    settings = {one.name for one in OPTIONS["training"].members}
    for name, option in _flags(offered(Surface.COMMAND_LINE)).items():
        for command in (here, there):
            if name not in command:
                continue
            type_, described = get_args(command[name].annotation)
            is_text = option.unit == "bytes" or (option.word and option.kind == "number")
            assert type_ == (str | None if is_text else COMMAND_LINE[option.kind]), name
            assert described.help.startswith(option.description), name
        if name in settings:
            assert here[name].default is None, name
            continue
        assert here[name].default == (option.default or (0 if option.default == 0 else None)), name
    assert all(there[name].default is None for name in submitted)


def test_python_has_the_options() -> None:
    parameters = _parameters(superopt.optimize)
    described = inspect.getdoc(superopt.optimize) or ""
    for name, parameter in parameters.items():
        assert parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY), name
        assert f"\n    {name}: " in described, f"{name} is missing in the docstring of superopt.optimize"
    for name in ("model", "plan", "example_inputs", "database", "progress"):
        del parameters[name]
    options = {option.field: option for option in offered(Surface.PYTHON).values()}
    assert list(parameters) == list(options)
    for name, option in options.items():
        own = {"cluster": str | Path, "inputs": GivenInputs}
        wanted = own[name] if name in own else PYTHON[option.kind]
        wanted = wanted | Literal["all"] if option.word else wanted
        assert parameters[name].annotation == (wanted | None if option.optional else wanted), name
        assert parameters[name].default == option.default, name


def _schema(name: str) -> Mapping[str, object]:
    schema = options_schema(Settings())["properties"][name]  # type: ignore[index]
    return schema["anyOf"][0] if "anyOf" in schema else schema  # type: ignore[no-any-return]


def test_the_service_has_the_options() -> None:
    properties: Mapping[str, Mapping[str, object]]
    properties = options_schema(Settings())["properties"]  # type: ignore[assignment]
    assert properties.keys() == offered(Surface.HTTP).keys()
    for name, option in offered(Surface.HTTP).items():
        schema = _schema(name)
        assert schema["type"] == JSON[option.kind], name
        assert schema.get("enum", []) == [one.name for one in option.choices], name
        assert properties[name]["default"] == option.default, name
        assert properties[name]["description"] == option.description, name
        assert ("anyOf" in properties[name]) == option.optional, name
        bounds = schema["additionalProperties"] if option.kind == "sizes" else schema
        limits = [bounds.get(word) for word in ("minimum", "exclusiveMinimum")]  # type: ignore[attr-defined]
        assert limits == [option.least, option.above], name
    assert not {"inputs", "cluster", "samples", "patience"} & properties.keys()
    settings = _schema("training")
    assert settings["properties"].keys() == {one.name for one in OPTIONS["training"].members}  # type: ignore[attr-defined]
    assert settings["additionalProperties"] is False


def test_the_form_has_the_options_of_the_service() -> None:
    settings = Settings(max_job_seconds=20.0)
    for drawn, option in zip(option_fields(settings), service_options(settings).values(), strict=True):
        for name in ("name", "help", "kind", "least", "above", "most", "default", "optional"):
            assert drawn[name] == getattr(option, name)
        assert json.loads(json.dumps(drawn))["choices"] == [
            {"name": one.name, "help": one.help, "device": one.device, "cluster": one.cluster}
            for one in option.choices
        ]


def test_the_page_knows_the_defaults() -> None:
    """Of what was left out it shows the default."""
    found = [
        (name, json.loads(literal))
        for path in (DOCS.parent / "server" / "page" / "files" / "js").rglob("*.js")
        for name, literal in re.findall(
            r'options\.(\w+) \?\? ("\w+"|[0-9.]+)', path.read_text(encoding="utf-8")
        )
    ]
    assert {name for name, _ in found} >= {"objective", "target", "budget"}
    assert all(value == OPTIONS[name].default for name, value in found), found


def test_a_service_offers_what_it_can_do() -> None:
    table = service_options(Settings(max_job_seconds=20.0, plans_clusters=False))
    assert (table["budget"].most, table["budget"].default) == (20.0, 20.0)
    assert "with a cluster" not in table["objective"].description
    assert [one.name for one in table["search"].choices] == list(searches())


def test_the_page_about_options_is_that_of_the_declaration() -> None:
    page = (DOCS / "options.md").read_text(encoding="utf-8")
    assert options_table() in page, "run python -m superopt.options and put the table into docs/options.md"


def test_the_strategies_are_those_of_the_optimizer() -> None:
    choices = OPTIONS["search"].choices
    assert tuple(one.name for one in choices if one.device) == tuple(searches())
    assert SearchLimits(deadline=0.0).alpha == DEFAULTS.alpha


def test_requests_and_options_are_one(tmp_path: Path) -> None:
    given = Options(
        dims={"batch": 8}, freeze={"rows": 2}, keep=("a", "b"), exclude_rules=("f",), inputs=tmp_path,
        tolerance=1e-3, seed=3, objective="training", training={"loss": "mse", "trainable": ["w*"]},
    )  # fmt: skip
    request = json.loads(json.dumps(given.to_request()))
    assert Options.from_json(request) == given
    assert (request["dim"], request["exclude_rule"]) == ({"batch": 8}, ["f"])
    assert "cluster" not in request


def test_options_are_read_without_what_does_the_work() -> None:
    """The command line starts at once."""
    program = "import sys, superopt.options; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    ).stdout
    assert not {"optimizer", "numpy", "pydantic", "onnx"} & set(loaded.split())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"speed": 1}, "expected options among alpha, budget, .*, got 'speed'"),
        ({"budget": "5"}, "budget: expected a number of seconds, above 0, got '5'"),
        ({"budget": 10**400}, "budget: expected a number of seconds, above 0, got 1000"),
        ({"seed": True}, "seed: expected a whole number, at least 0 and at most [0-9]+, got True"),
        ({"seed": 1.0}, "seed: expected a whole number, .*, got 1.0"),
        ({"seed": None}, "seed: expected a whole number, .*, got None"),
        ({"dim": {"batch": 0}}, "dim.batch: expected a whole number, at least 1 and .*, got 0"),
        ({"dim": {"": 1}}, "dim: expected a text of 1 to 1000 characters, got ''"),
        ({"dim": [8]}, "dim: expected sizes by name, got \\[8\\]"),
        ({"dim": "all"}, "dim: expected sizes by name, got 'all'"),
        ({"freeze": "some"}, "freeze: expected sizes by name, or all, got 'some'"),
        ({"keep": "all"}, "keep: expected a list of names, got 'all'"),
        ({"keep": ["a", ""]}, "keep.1: expected a text of 1 to 1000 characters, got ''"),
        ({"keep": ["a"] * 2_001}, "keep: expected at most 2000, got 2001"),
        ({"inputs": 3}, "inputs: expected the path of a file, got 3"),
        ({"inline_functions": 1}, "inline_functions: expected true or false, got 1"),
        ({"opset": 6}, "opset: expected a whole number, at least 7, got 6"),
        ({"runtime": "tvm"}, "runtime: expected one of portable, onnxruntime, got 'tvm'"),
        (
            {"training": {"loss": "mse", "precision": "bf16"}},
            "training: expected no settings but those of precision, or objective training, got 'latency'",
        ),
        (
            {"objective": "training", "training": {"optimizer": "lion"}},
            "training.optimizer: expected one of sgd, .*, got 'lion'",
        ),
        (
            {"objective": "training", "training": {"freeze": {}}},
            "training: expected settings among accumulate, .*, got 'freeze'",
        ),
        ({"objective": "training", "training": "adam"}, "training: expected an object of settings .* 'adam'"),
        (
            {"objective": "training", "training": {"schedule": "cosine(3)"}},
            "training.schedule: expected one of constant",
        ),
    ],
)
def test_a_bad_value_is_said_with_what_was_expected(values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"^{message}"):
        Options.from_json(values)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    four, truth = np.int64(4), np.True_
    given: dict[str, object] = {"dims": {"n": four}, "threads": np.int32(1), "budget": np.uint8(5)}
    assert json.dumps(Options.from_python(given).to_request()) == json.dumps(
        Options(dims={"n": 4}, threads=1, budget=5.0).to_request()
    )
    training = {"loss": "mse", "accumulate": four}
    for options in (
        Options.from_json({"seed": four, "objective": "training", "training": training}),
        Options(seed=four, objective="training", training=training),  # type: ignore[arg-type]
    ):
        request = json.loads(json.dumps(options.to_request()))
        assert (request["seed"], request["training"]["accumulate"]) == (4, 4)
    step = StepSettings(ModelSettings(freeze={"n": four}), update=UpdateSettings(accumulate=four))  # type: ignore[arg-type]
    assert (type(step.model.freeze["n"]), type(step.update.accumulate)) == (int, int)
    for wrong in (truth, np.float32(4), np.int64(0)):
        with pytest.raises(InvalidOptionError, match=r"^threads: expected a whole number"):
            Options.from_python({"threads": wrong})


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_a_default_is_valid_and_its_bounds_are_kept(option: Option) -> None:
    assert not list(option.mismatches(option.default, is_cluster=False))
    below = [] if option.least is None else [option.least - 1]
    beyond = [
        *below,
        *([] if option.above is None else [option.above]),
        *([] if option.most is None else [option.most + 1]),
    ]
    for value in beyond:
        entry = {"x": value} if option.kind == "sizes" else value
        (found,) = option.mismatches(entry, is_cluster=False)
        assert option.bounds in found.expected
