"""Parser of preset files (TOML).

Square shapes admit equations that are false in general and exclude others. Therefore a stage may override the
shapes of inputs, with equal rank, to enumerate its operators at several assignments:

    [[stages]]
    inputs = ["x", "y"]
    shapes = { x = [2, 3], y = [3, 4] }

A type may lie in parts along its axes (``divisions``, a number of parts for each), be worked on part by part
(``turns``), or lie in ``replicas``; its shape is that of the whole:

    [types]
    halves = { role = "data", shape = [4, 4], divisions = [2, 1] }

Numbers have names, so that attributes can be calculated from them; a list of them stands for a variant for
each. Candidates are generalised to all numbers that stand in the same relation:

    numbers = { a = "7/5", c = "5/11" }

    [[operators]]
    operator = "hard_sigmoid"
    variants = [{ alpha = ["a", "a*c"], beta = "1/2" }]
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import cast

from superopt.errors import IllTypedError, InvalidFileError, InvalidOptionError
from superopt.generator.presets.attributes import named_numbers, variants_of
from superopt.generator.presets.preset import (
    ConstantTensor,
    InputTensor,
    InputType,
    Instance,
    Preset,
    Stage,
    with_role,
)
from superopt.ir.terms import AttributeTerm
from superopt.ir.types import Division, ElementType, TensorType
from superopt.ops import OPERATORS, attribute_names, operator_from_attributes
from superopt.ops.shape import Half
from superopt.ops.sharding import divided
from superopt.ops.terms import application

_KEYS = frozenset(
    (
        "name",
        "description",
        "max_ops",
        "merges",
        "numbers",
        "types",
        "inputs",
        "constants",
        "operators",
        "stages",
    )
)
_TYPE_KEYS = frozenset(("role", "shape", "divisions", "turns", "replicas"))


def preset_names() -> tuple[str, ...]:
    """The names of the shipped presets."""
    return tuple(
        sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))
    )


def load_preset(name: str | Path) -> Preset:
    """Loads a shipped preset by name, or a preset file. Raises InvalidFileError or InvalidOptionError."""
    if isinstance(name, Path) or name.endswith(".toml"):
        path = Path(name)
        try:
            return parse_preset(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidFileError(f"{path}: cannot be read ({error})") from error
    if name not in preset_names():
        raise InvalidOptionError(f"unknown preset {name}; known: {', '.join(preset_names())}")
    return parse_preset(_folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml")


def parse_preset(text: str, where: str) -> Preset:
    """Parses a preset from TOML text. Raises InvalidFileError with the location and what was expected."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFileError(f"{where}: not TOML: {error}") from error
    for key in document:
        if key not in _KEYS:
            raise InvalidFileError(f"{where}: unknown key {key}; known: {', '.join(sorted(_KEYS))}")
    types = _types(_table(where, document, "types"), f"{where}, types")
    inputs = [
        InputTensor(name, _type_named(types, entry, place))
        for entry, place in _entries(where, document, "inputs")
        for name in _names(entry, place)
    ]
    repeated = {i.name for i in inputs if sum(other.name == i.name for other in inputs) > 1}
    if repeated:
        raise InvalidFileError(f"{where}, inputs: the names {', '.join(sorted(repeated))} occur twice")
    numbers = named_numbers(document.get("numbers", {}), f"{where}, numbers")
    instances = [
        instance
        for entry, place in _entries(where, document, "operators")
        for instance in _instances(entry, place, numbers)
    ]
    if not inputs or not instances:
        raise InvalidFileError(f"{where}: expected at least one of [[inputs]] and one of [[operators]]")
    constants = [
        constant
        for entry, place in _entries(where, document, "constants")
        for constant in _constants(entry, place, numbers)
    ]
    size = _positive(document, "max_ops", where, 2)
    whole = Stage(size, tuple(inputs), tuple(constants), tuple(instances))
    stages = [_stage(entry, place, whole) for entry, place in _entries(where, document, "stages")]
    return Preset(
        _text(document, "name", where),
        _text(document, "description", where),
        size,
        bool(document.get("merges", True)),
        whole.inputs,
        whole.constants,
        whole.instances,
        tuple(stages) or (whole,),
    )


def _stage(entry: Mapping[str, object], where: str, whole: Stage) -> Stage:
    """A stage of the preset; omitted keys select everything."""
    known: dict[str, set[str]] = {
        "inputs": {tensor.name for tensor in whole.inputs},
        "constants": {constant.term.operator for constant in whole.constants},
        "operators": {instance.name for instance in whole.instances},
    }
    chosen = {key: _chosen(entry, key, names, where) for key, names in known.items()}
    shapes = _shapes(entry, where)
    inputs = {tensor.name: tensor for tensor in whole.inputs if tensor.name in chosen["inputs"]}
    for name, shape in shapes.items():
        if name not in inputs:
            raise InvalidFileError(
                f"{where}, shapes: {name} is not an input of the stage; its inputs: {', '.join(inputs)}"
            )
        type_ = inputs[name].type
        rank = len(type_.whole_shape)
        if len(shape) != rank:
            raise InvalidFileError(
                f"{where}, shapes: expected a shape of rank {rank} for {name}, got {list(shape)}"
            )
        inputs[name] = InputTensor(name, type_.at(shape))
    return Stage(
        _positive(entry, "max_ops", where, whole.max_ops),
        tuple(inputs.values()),
        tuple(constant for constant in whole.constants if constant.term.operator in chosen["constants"]),
        tuple(instance for instance in whole.instances if instance.name in chosen["operators"]),
    )


def _shapes(entry: Mapping[str, object], where: str) -> dict[str, tuple[int, ...]]:
    table = entry.get("shapes", {})
    if not isinstance(table, dict):
        raise InvalidFileError(f"{where}: expected shapes = {{ name = [sizes] }}, got {table!r}")
    shapes = cast("Mapping[str, object]", table)
    return {name: _shape(value, f"{where}, shapes, {name}") for name, value in shapes.items()}


def _shape(value: object, where: str) -> tuple[int, ...]:
    sizes = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in sizes):
        raise InvalidFileError(f"{where}: expected a shape of positive sizes, got {value!r}")
    return tuple(cast("list[int]", sizes))


def _chosen(entry: Mapping[str, object], key: str, known: set[str], where: str) -> set[str]:
    if key not in entry:
        return known
    names = set(_names(entry, where, key))
    if not names <= known:
        raise InvalidFileError(
            f"{where}: unknown {key} {', '.join(sorted(names - known))}; known: {', '.join(sorted(known))}"
        )
    return names


def _folder() -> Traversable:
    return resources.files("superopt.generator").joinpath("presets")


def _table(where: str, document: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = document.get(key)
    if not isinstance(value, dict):
        raise InvalidFileError(f"{where}: expected a table [{key}]")
    return cast("Mapping[str, object]", value)


def _entries(where: str, document: Mapping[str, object], key: str) -> list[tuple[Mapping[str, object], str]]:
    value = document.get(key, [])
    if not isinstance(value, list) or not all(
        isinstance(entry, dict) for entry in cast("list[object]", value)
    ):
        raise InvalidFileError(f"{where}: expected tables [[{key}]]")
    entries = cast("list[Mapping[str, object]]", value)
    return [(entry, f"{where}, {key} {index}") for index, entry in enumerate(entries, 1)]


def _text(entry: Mapping[str, object], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise InvalidFileError(f"{where}: expected text for {key}, got {value!r}")
    return value


def _positive(entry: Mapping[str, object], key: str, where: str, default: int) -> int:
    value = entry.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidFileError(f"{where}: expected a positive whole number for {key}, got {value!r}")
    return value


def _names(entry: Mapping[str, object], where: str, key: str = "names") -> list[str]:
    value = entry.get(key)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in cast("list[object]", value)):
        raise InvalidFileError(f"{where}: expected a list of names for {key}, got {value!r}")
    return cast("list[str]", value)


def _types(table: Mapping[str, object], where: str) -> dict[str, InputType]:
    types: dict[str, InputType] = {}
    for name, value in table.items():
        if not isinstance(value, dict):
            raise InvalidFileError(f"{where}, {name}: expected {{role = ..., shape = [...]}}, got {value!r}")
        entry = cast("Mapping[str, object]", value)
        types[name] = _type(entry, f"{where}, {name}")
    return types


def _type(entry: Mapping[str, object], where: str) -> InputType:
    for key in entry:
        if key not in _TYPE_KEYS:
            raise InvalidFileError(f"{where}: unknown key {key}; known: {', '.join(sorted(_TYPE_KEYS))}")
    shape, role = _shape(entry.get("shape"), where), _text(entry, "role", where)
    parts, turns = (
        _shape(entry.get(key, [1] * len(shape)), f"{where}, {key}") for key in ("divisions", "turns")
    )
    if not len(parts) == len(turns) == len(shape):
        raise InvalidFileError(f"{where}: expected a number for each axis of {list(shape)}")
    divisions = tuple(Division(degree, batches) for degree, batches in zip(parts, turns, strict=True))
    whole = TensorType(ElementType.FLOAT, shape)
    try:
        return with_role(role, divided(role, whole, divisions, _positive(entry, "replicas", where, 1)))
    except IllTypedError as error:
        raise InvalidFileError(f"{where}: {error}") from error


def _type_named(types: Mapping[str, InputType], entry: Mapping[str, object], where: str) -> InputType:
    name = _text(entry, "type", where)
    if name not in types:
        raise InvalidFileError(f"{where}: unknown type {name}; known: {', '.join(types)}")
    return types[name]


def _signature(text: object, where: str) -> tuple[tuple[str, ...], str]:
    parts = text.split("->") if isinstance(text, str) else []
    if len(parts) != 2 or not parts[1].strip():
        raise InvalidFileError(f'{where}: expected a signature like "data, kernel -> data", got {text!r}')
    return tuple(role.strip() for role in parts[0].split(",")), parts[1].strip()


def _instances(entry: Mapping[str, object], where: str, numbers: Mapping[str, object]) -> list[Instance]:
    name = _text(entry, "operator", where)
    signatures = entry.get("signatures")
    variants: object = entry.get("variants", [cast("dict[str, object]", {})])
    if not isinstance(signatures, list) or not isinstance(variants, list):
        raise InvalidFileError(f"{where}, {name}: expected signatures = [...] and variants = [{{...}}]")
    roles = tuple(_signature(text, f"{where}, {name}") for text in cast("list[object]", signatures))
    implicit = _sizes(entry, where)
    made: list[Instance] = []
    place = f"{where}, {name}"
    for attributes in (
        a for each in cast("list[object]", variants) for a in variants_of(each, place, numbers)
    ):
        try:
            known = OPERATORS.get(name)
            half = known is not None and issubclass(known, Half)
            sizes = {"size": 1} if half else _implicit(name, implicit)
            operator = operator_from_attributes(name, {**attributes, **sizes})
            term = application(name, attributes)
        except IllTypedError as error:
            raise InvalidFileError(f"{where}: {error}") from error
        made.append(Instance(name, term.attributes, roles, None if half else operator))
    return made


def _constants(
    entry: Mapping[str, object], where: str, numbers: Mapping[str, object]
) -> Iterator[ConstantTensor]:
    name, role, implicit = _text(entry, "operator", where), _text(entry, "role", where), _sizes(entry, where)
    for attributes in variants_of(entry.get("attributes", {}), where, numbers):
        try:
            operator = operator_from_attributes(name, {**attributes, **_implicit(name, implicit)})
            operator.infer()
            yield ConstantTensor(operator, application(name, attributes), role)
        except IllTypedError as error:
            raise InvalidFileError(f"{where}: {error}") from error


def _sizes(entry: Mapping[str, object], where: str) -> Mapping[str, AttributeTerm]:
    """The sizes that text leaves out."""
    return next(variants_of(entry.get("implicit", {}), where, {}))


def _implicit(name: str, sizes: Mapping[str, AttributeTerm]) -> Mapping[str, AttributeTerm]:
    """The values of implicit attributes at the enumerated shapes. Raises IllTypedError."""
    for hidden in sizes:
        if name in OPERATORS and hidden not in OPERATORS[name].implicit:
            known = ", ".join(attribute_names(name))
            raise IllTypedError(f"{name}: {hidden} is not an implicit attribute; attributes: {known}")
    return sizes
