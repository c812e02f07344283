"""Parser of the preset file of adjoints (TOML).

Operators, constants and stages are as in other presets, with these differences. Numbers are calculated from
the attributes of the differentiated operator; an operator or constant is left out where it lacks one of them.
A stage enumerates ``max_ops`` operators and solves for ``solved`` more. Applications to differentiate are

    [[goals]]
    operator = "conv"
    attributes = { stride = [2, 1] }
    operands = [[[1, 2, 5, 4], [3, 2, 2, 3]]]

``operands`` lists the shapes of all operands, once for each application. Attributes are open in statements;
``fixed`` ones are written out, and ``implicit`` ones are those that types determine.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import cast

from superopt.equations import parse_number
from superopt.errors import IllTypedError, InvalidEquationError, InvalidFileError
from superopt.generator.adjoints.vocabulary import Attributes, Constant, Goal, Search, Vocabulary, Word
from superopt.generator.presets.attributes import variants_of
from superopt.generator.presets.reading import GRADIENTS
from superopt.generator.presets.tables import (
    entries_of,
    names_of,
    positive_of,
    shape_of,
    signature_of,
    text_of,
)
from superopt.ir.terms import AttributeTerm
from superopt.ops import OPERATORS, operator_from_attributes
from superopt.ops.attributes import NUMBERS

_NONE: Mapping[str, object] = {}
_KEYS = frozenset(("name", "description", "constants", "operators", "stages", "goals"))


def load_vocabulary() -> Vocabulary:
    """The shipped preset of adjoints."""
    file = f"{GRADIENTS}.toml"
    text = resources.files("superopt.generator").joinpath("presets", file).read_text(encoding="utf-8")
    return parse_vocabulary(text, file)


def parse_vocabulary(text: str, where: str) -> Vocabulary:
    """Parses a preset of adjoints. Raises InvalidFileError with the location and what was expected."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFileError(f"{where}: not TOML: {error}") from error
    for key in document:
        if key not in _KEYS:
            raise InvalidFileError(f"{where}: unknown key {key}; known: {', '.join(sorted(_KEYS))}")
    words = [
        word for entry, place in entries_of(where, document, "operators") for word in _words(entry, place)
    ]
    constants = [
        constant
        for entry, place in entries_of(where, document, "constants")
        for constant in _constants(entry, place)
    ]
    stages = entries_of(where, document, "stages")
    goals = [goal for entry, place in entries_of(where, document, "goals") for goal in _goals(entry, place)]
    return Vocabulary(
        text_of(document, "name", where),
        text_of(document, "description", where),
        tuple(_search(entry, place, words, constants) for entry, place in stages),
        tuple(goals),
    )


def _words(entry: Mapping[str, object], where: str) -> Iterator[Word]:
    name = _operator(entry, where)
    signatures = tuple(signature_of(text, where) for text in names_of(entry, where, "signatures"))
    variants = cast("list[object]", entry.get("variants", [_NONE]))
    for attributes in (found for variant in variants for found in _alternatives(variant, where)):
        yield Word(name, attributes, signatures)


def _constants(entry: Mapping[str, object], where: str) -> Iterator[Constant]:
    name, role = _operator(entry, where), text_of(entry, "role", where)
    for attributes in _alternatives(entry.get("attributes", {}), where):
        yield Constant(name, attributes, role)


def _search(entry: Mapping[str, object], where: str, words: list[Word], constants: list[Constant]) -> Search:
    """A stage; what its list of operators does not name is left out."""
    chosen = names_of(entry, where, "operators")
    missing = set(chosen) - {word.name for word in words}
    if missing:
        raise InvalidFileError(f"{where}: unknown operators {', '.join(sorted(missing))}")
    solved = entry.get("solved", 1)
    if not isinstance(solved, int) or solved not in range(3):
        raise InvalidFileError(f"{where}: expected solved = 0, 1 or 2, got {solved!r}")
    return Search(
        positive_of(entry, "max_ops", where, 2),
        solved,
        tuple(word for word in words if word.name in chosen),
        tuple(constants),
    )


def _goals(entry: Mapping[str, object], where: str) -> Iterator[Goal]:
    """A goal for every operand that may be differentiated, at every application."""
    name = _operator(entry, where)
    (variable,) = variants_of(entry.get("attributes", {}), where, {})
    (fixed,) = variants_of(entry.get("fixed", {}), where, {})
    (implicit,) = variants_of(entry.get("implicit", {}), where, {})
    cases = entry.get("operands")
    if not isinstance(cases, list):
        raise InvalidFileError(f"{where}: expected operands = [[SHAPE, ...], ...], got {cases!r}")
    try:
        operator = operator_from_attributes(name, {**variable, **fixed, **implicit})
    except IllTypedError as error:
        raise InvalidFileError(f"{where}: {error}") from error
    for case in cast("list[list[object]]", cases):
        shapes = tuple(shape_of(shape, where) for shape in case)
        for index in range(operator.inputs):
            if index not in operator.conditions:
                yield Goal(operator, tuple(variable), shapes, index)


def _operator(entry: Mapping[str, object], where: str) -> str:
    name = text_of(entry, "operator", where)
    if name not in OPERATORS:
        raise InvalidFileError(f"{where}: unknown operator {name}")
    return name


def _alternatives(entry: object, where: str) -> Iterator[Attributes]:
    """Attributes with numbers that may contain names; one of each combination of lists of alternatives."""
    if not isinstance(entry, dict):
        raise InvalidFileError(f"{where}: expected a table of attributes, got {entry!r}")
    table = cast("Mapping[str, object]", entry)
    choices = [_values(name, value, where) for name, value in table.items()]
    for chosen in itertools.product(*choices):
        yield tuple(zip(table, chosen, strict=True))


def _values(name: str, value: object, where: str) -> list[AttributeTerm]:
    if name not in NUMBERS:
        return [value if isinstance(value, int | str) else tuple(cast("list[int]", value))]
    parts = cast("list[object]", value) if isinstance(value, list) else [value]
    try:
        return [parse_number(str(part)) for part in parts]
    except InvalidEquationError as error:
        raise InvalidFileError(f"{where}: {name}: {error}") from error


__all__ = ["load_vocabulary", "parse_vocabulary"]
