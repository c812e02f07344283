"""YAML and JSON documents in which every value keeps its line, column and key, for error messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn, cast

import yaml
from yaml.error import Mark
from yaml.events import AliasEvent, CollectionStartEvent, Event, ScalarEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from superopt.errors import InvalidFileError
from superopt.optimizer.parallel.documents.quantities import Quantity

MAX_CHARACTERS = 2**18
_MAX_DEPTH = 20
_MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a document: position, name, content."""

    where: str
    path: str
    node: Node

    def fail(self, message: str) -> NoReturn:
        """Raises InvalidFileError with the position, what was expected, and the value."""
        self.fail_with(f"{message}, got {self.shown}")

    def fail_with(self, message: str) -> NoReturn:
        """Raises InvalidFileError with the position."""
        mark = self.node.start_mark
        name = f"{self.path}: " if self.path else ""
        raise InvalidFileError(
            f"{self.where}, line {mark.line + 1}, column {mark.column + 1}: {name}{message}"
        )

    @property
    def shown(self) -> str:
        """The value, formatted for an error message."""
        if isinstance(self.node, MappingNode):
            return "fields" if self.node.value else "no fields"
        if isinstance(self.node, SequenceNode):
            return "a list" if self.node.value else "an empty list"
        assert isinstance(self.node, ScalarNode)
        if self._tag == "null":
            return "nothing"
        text = self.node.value if len(self.node.value) <= _MAX_SHOWN else self.node.value[:_MAX_SHOWN] + "…"
        return repr(text) if self._tag not in ("int", "float", "bool") else text

    @property
    def is_fields(self) -> bool:
        """Whether it is a mapping."""
        return isinstance(self.node, MappingNode)

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of a mapping's fields, known or not; none of other values."""
        if not isinstance(self.node, MappingNode):
            return ()
        return tuple(str(key.value) for key, _ in self.node.value if isinstance(key, ScalarNode))

    @property
    def _tag(self) -> str:
        return self.node.tag.rpartition(":")[2]

    def fields(self, expected: str, required: Iterable[str], optional: Iterable[str]) -> Mapping[str, Field]:
        """The mapping's fields by name; raises if a required field is missing or a field is unknown."""
        if not isinstance(self.node, MappingNode):
            self.fail(f"expected {expected}")
        required = tuple(required)
        known = (*required, *optional)
        found: dict[str, Field] = {}
        for key, value in self.node.value:
            name = key.value if isinstance(key, ScalarNode) else None
            here = Field(self.where, self.path, key)
            if name not in known:
                here.fail(f"expected one of the fields {', '.join(known)}")
            if name in found:
                here.fail("expected every field once")
            found[name] = Field(self.where, f"{self.path}.{name}".lstrip("."), value)
        for name in required:
            if name not in found:
                self.fail_with(f"expected the field {name}, got {', '.join(found) or 'no fields'}")
        return found

    def items(self, expected: str) -> tuple[Field, ...]:
        """The entries of a list of at least one."""
        if not isinstance(self.node, SequenceNode) or not self.node.value:
            self.fail(f"expected {expected}")
        return tuple(
            Field(self.where, f"{self.path}[{number}]", value) for number, value in enumerate(self.node.value)
        )

    def text(self, expected: str, longest: int = 100) -> str:
        """Printable text on one line."""
        if not isinstance(self.node, ScalarNode) or self._tag != "str":
            self.fail(f"expected {expected}")
        text: str = self.node.value
        if not text.strip() or not text.isprintable() or len(text) > longest:
            self.fail(f"expected {expected}, printable and of 1 to {longest} characters")
        return text

    def count(self, most: int) -> int:
        """A whole number of at least 1."""
        expected = f"expected a whole number from 1 to {most}"
        if not isinstance(self.node, ScalarNode) or self._tag != "int" or not self.node.value.isdecimal():
            self.fail(expected)
        digits: str = self.node.value
        if digits.startswith("0") or len(digits) > len(str(most)) or int(digits) > most:
            self.fail(expected)
        return int(digits)

    def quantity(self, kind: Quantity, least: Fraction, most: Fraction, limits: str) -> Fraction:
        """A quantity of that kind within the limits, which the error message states."""
        if not isinstance(self.node, ScalarNode) or self._tag not in ("str", "int", "float"):
            self.fail(f"expected {kind.description}")
        try:
            found = kind.parse(self.node.value)
        except ValueError as error:
            self.fail(str(error))
        if not least <= found <= most:
            self.fail(f"expected {kind.description}, {limits}")
        return found


class _Loader(yaml.SafeLoader):
    """Composes nodes without aliases, which could expand a short text enormously, without tags, and with
    limited depth."""

    depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event = cast("Event", self.peek_event())  # pyright: ignore[reportUnknownMemberType]
        mark = cast("Mark", event.start_mark)
        if isinstance(event, AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases are not allowed here", problem_mark=mark)
        if isinstance(event, CollectionStartEvent | ScalarEvent) and event.tag is not None:
            raise yaml.MarkedYAMLError(problem="tags are not allowed here", problem_mark=mark)
        if self.depth >= _MAX_DEPTH:
            problem = f"more than {_MAX_DEPTH} levels are not allowed here"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read_document(text: str, where: str) -> Field:
    """The root of a document of YAML or JSON; raises InvalidFileError with line and column."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidFileError(
            f"{where}, line 1, column 1: expected at most {MAX_CHARACTERS} characters, got {len(text)}"
        )
    if text.lstrip().startswith(("{", "[")):
        text = text.replace("\t", " ")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InvalidFileError(f"{where}{place}: expected YAML or JSON: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise InvalidFileError(
            f"{where}, line {line}, column {column}: expected text, got the character U+{error.character:04X}"
        ) from None
    if node is None:
        raise InvalidFileError(f"{where}, line 1, column 1: expected fields, got an empty document")
    return Field(where, "", node)
