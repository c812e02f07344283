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
from superopt.generator.presets.tables import (
    entries_of,
    names_of,
    positive_of,
    shape_of,
    signature_of,
    table_of,
    text_of,
)
from superopt.ir.terms import AttributeTerm
from superopt.ir.types import Division, ElementType, TensorType
from superopt.ops import OPERATORS, attribute_names, operator_from_attributes
from superopt.ops.shape import Half
from superopt.ops.sharded.sharding import divided
from superopt.ops.terms import application

GRADIENTS = "adjoints"
"""The preset whose terms are compared with vector-Jacobian products, not with each other."""

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
    """The names of the shipped presets of rules."""
    files = (file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))
    return tuple(sorted(name for name in files if name != GRADIENTS))


def load_preset(name: str | Path) -> Preset:
    """Loads a shipped preset by name, or a preset file. Raises InvalidFileError or InvalidOptionError."""
    if isinstance(name, Path) or name.endswith(".toml"):
        path = Path(name)
        try:
            return parse_preset(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidFileError(f"{path}: cannot be read ({error})") from error
    if name == GRADIENTS:
        raise InvalidOptionError(
            f"preset {name} has operators of gradients, not of rules; use `superopt axioms discover`"
        )
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
    types = _types(table_of(where, document, "types"), f"{where}, types")
    inputs = [
        InputTensor(name, _type_named(types, entry, place))
        for entry, place in entries_of(where, document, "inputs")
        for name in names_of(entry, place)
    ]
    repeated = {i.name for i in inputs if sum(other.name == i.name for other in inputs) > 1}
    if repeated:
        raise InvalidFileError(f"{where}, inputs: the names {', '.join(sorted(repeated))} occur twice")
    numbers = named_numbers(document.get("numbers", {}), f"{where}, numbers")
    instances = [
        instance
        for entry, place in entries_of(where, document, "operators")
        for instance in _instances(entry, place, numbers)
    ]
    if not inputs or not instances:
        raise InvalidFileError(f"{where}: expected at least one of [[inputs]] and one of [[operators]]")
    constants = [
        constant
        for entry, place in entries_of(where, document, "constants")
        for constant in _constants(entry, place, numbers)
    ]
    size = positive_of(document, "max_ops", where, 2)
    whole = Stage(size, tuple(inputs), tuple(constants), tuple(instances))
    stages = [_stage(entry, place, whole) for entry, place in entries_of(where, document, "stages")]
    return Preset(
        text_of(document, "name", where),
        text_of(document, "description", where),
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
        positive_of(entry, "max_ops", where, whole.max_ops),
        tuple(inputs.values()),
        tuple(constant for constant in whole.constants if constant.term.operator in chosen["constants"]),
        tuple(instance for instance in whole.instances if instance.name in chosen["operators"]),
    )


def _shapes(entry: Mapping[str, object], where: str) -> dict[str, tuple[int, ...]]:
    table = entry.get("shapes", {})
    if not isinstance(table, dict):
        raise InvalidFileError(f"{where}: expected shapes = {{ name = [sizes] }}, got {table!r}")
    shapes = cast("Mapping[str, object]", table)
    return {name: shape_of(value, f"{where}, shapes, {name}") for name, value in shapes.items()}


def _chosen(entry: Mapping[str, object], key: str, known: set[str], where: str) -> set[str]:
    if key not in entry:
        return known
    names = set(names_of(entry, where, key))
    if not names <= known:
        raise InvalidFileError(
            f"{where}: unknown {key} {', '.join(sorted(names - known))}; known: {', '.join(sorted(known))}"
        )
    return names


def _folder() -> Traversable:
    return resources.files("superopt.generator").joinpath("presets")


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
    shape, role = shape_of(entry.get("shape"), where), text_of(entry, "role", where)
    parts, turns = (
        shape_of(entry.get(key, [1] * len(shape)), f"{where}, {key}") for key in ("divisions", "turns")
    )
    if not len(parts) == len(turns) == len(shape):
        raise InvalidFileError(f"{where}: expected a number for each axis of {list(shape)}")
    divisions = tuple(Division(degree, batches) for degree, batches in zip(parts, turns, strict=True))
    whole = TensorType(ElementType.FLOAT, shape)
    try:
        return with_role(role, divided(role, whole, divisions, positive_of(entry, "replicas", where, 1)))
    except IllTypedError as error:
        raise InvalidFileError(f"{where}: {error}") from error


def _type_named(types: Mapping[str, InputType], entry: Mapping[str, object], where: str) -> InputType:
    name = text_of(entry, "type", where)
    if name not in types:
        raise InvalidFileError(f"{where}: unknown type {name}; known: {', '.join(types)}")
    return types[name]


def _instances(entry: Mapping[str, object], where: str, numbers: Mapping[str, object]) -> list[Instance]:
    name = text_of(entry, "operator", where)
    signatures = entry.get("signatures")
    variants: object = entry.get("variants", [cast("dict[str, object]", {})])
    if not isinstance(signatures, list) or not isinstance(variants, list):
        raise InvalidFileError(f"{where}, {name}: expected signatures = [...] and variants = [{{...}}]")
    roles = tuple(signature_of(text, f"{where}, {name}") for text in cast("list[object]", signatures))
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
    name, role, implicit = (
        text_of(entry, "operator", where),
        text_of(entry, "role", where),
        _sizes(entry, where),
    )
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
