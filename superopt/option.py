"""One option: what it means, what it may be, and everything that is wrong with a value of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Flag, auto
from numbers import Integral
from pathlib import Path
from typing import Literal, TypeAlias, cast

MOST_CHARACTERS, MOST_ENTRIES = 1000, 2_000
"""The longest text, and the most names or sizes that one option may have."""

Kind: TypeAlias = Literal["number", "integer", "text", "names", "sizes", "file", "flag", "settings"]
"""The kinds of values; ``sizes`` are whole numbers by name, a ``flag`` is true or false, ``settings`` are
options of their own by name."""

_NUMBERS = {"number": "a number", "integer": "a whole number", "sizes": "a whole number"}
_NAME = f"a text of 1 to {MOST_CHARACTERS} characters"


class Surface(Flag):
    """Where an option is offered. The service takes the ``cluster`` as a file of its own."""

    COMMAND_LINE = auto()
    PYTHON = auto()
    HTTP = auto()
    EVERYWHERE = COMMAND_LINE | PYTHON | HTTP


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the values that an option may have, and for what: for one device, for a plan for several."""

    name: str
    help: str
    device: bool = True
    cluster: bool = False

    def __str__(self) -> str:
        only = {(True, False): ", not with a cluster", (False, True): ", with a cluster"}
        return f"`{self.name}` ({self.help}{only.get((self.device, self.cluster), '')})"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A value that an option cannot have; ``place`` is the name of the option and perhaps of an entry."""

    place: str
    expected: str
    got: object

    @property
    def detail(self) -> str:
        """What was expected there, and what came."""
        return f"expected {self.expected}, got {repr(self.got)[:100]}"

    def __str__(self) -> str:
        return f"{self.place}: {self.detail}" if self.place else self.detail


@dataclass(frozen=True, slots=True)
class Option:
    """What an option means and may be. Bounds hold for numbers and for every size, the ``pattern`` for text,
    also beside ``choices``, and messages say ``form`` instead of it;
    ``word`` is a text that is allowed in place of numbers; ``unset`` says what None and nothing mean;
    ``members`` are what settings consist of. The last
    fields are those of the declaration in ``Options``: ``name`` is that in JSON, with dashes that of the
    flag, ``field`` that in Python.
    """

    help: str
    choices: tuple[Choice, ...] = ()
    unset: str = ""
    unit: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    pattern: str = ""
    form: str = ""
    word: str = ""
    members: tuple[Option, ...] = ()
    surfaces: Surface = Surface.EVERYWHERE
    name: str = ""
    field: str = ""
    kind: Kind = "text"
    optional: bool = False
    default: object = None

    @property
    def description(self) -> str:
        """The help, with what may be chosen."""
        alone, plans = (", ".join(self._choosable(is_cluster=is_cluster)) for is_cluster in (False, True))
        others = f"; with a cluster {plans}" if plans not in ("", alone) else ""
        return f"{self.help}: {alone}{others}." if self.choices else f"{self.help}."

    @property
    def flag(self) -> str:
        """The flag of the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def bounds(self) -> str:
        """Between what a number is, in words."""
        limits = {"above": self.above, "at least": self.least, "at most": self.most}
        texts = {word: f"{limit:g}" if isinstance(limit, float) else limit for word, limit in limits.items()}
        return " and ".join(f"{word} {text}" for word, text in texts.items() if text is not None)

    @property
    def noun(self) -> str:
        """What one value is, in words."""
        if self.kind == "settings":
            return "an object of settings by name"
        if self.kind not in _NUMBERS:
            name = self.form or (f"a name that matches {self.pattern}" if self.pattern else _NAME)
            return {"file": "the path of a file", "flag": "true or false"}.get(self.kind, name)
        unit = f" of {self.unit}" if self.unit else ""
        return f"{_NUMBERS[self.kind]}{unit}{', ' if self.bounds else ''}{self.bounds}"

    @property
    def or_word(self) -> str:
        """The word that is allowed in place of sizes, as the end of a sentence; empty without one."""
        return f", or {self.word}" if self.word else ""

    def mismatches(self, value: object, *, is_cluster: bool) -> Iterator[Mismatch]:
        """Everything that is wrong with a value, for a plan for several devices or for one device."""
        if (value is None and self.optional) or (self.word and value == self.word):
            return
        if self.choices:
            names, others = (self._choosable(is_cluster=plans) for plans in (is_cluster, not is_cluster))
            if value not in names and not self._is_other(value):
                only = f" ({value} only {'without' if is_cluster else 'with'} a cluster)"
                other = f", or a text that matches {self.pattern}" if self.pattern else ""
                yield Mismatch(
                    self.name, f"one of {', '.join(names)}{other}{only if value in others else ''}", value
                )
        elif self.kind in ("sizes", "names"):
            yield from self._several(value)
        elif self.kind == "settings":
            yield from self._members(value)
        elif not self._is_one(value):
            yield Mismatch(self.name, self.noun, value)

    def parsed(self, value: object) -> object:
        """The value in Python of a value in JSON that has no mismatch."""
        match self.kind:
            case "number" if value is not None and value != self.word:
                return float(cast("float", value))
            case "integer" | "sizes" | "settings":
                return plain(value)
            case "names":
                return tuple(cast("list[str]", value))
            case "file" if value is not None:
                return Path(cast("str", value))
            case _:
                return value

    def _choosable(self, *, is_cluster: bool) -> list[str]:
        return [one.name for one in self.choices if (one.cluster if is_cluster else one.device)]

    def _is_other(self, value: object) -> bool:
        """Whether it is a text that is allowed beside the choices."""
        return bool(self.pattern) and isinstance(value, str) and bool(re.fullmatch(self.pattern, value))

    def _several(self, value: object) -> Iterator[Mismatch]:
        if not isinstance(value, Mapping if self.kind == "sizes" else list | tuple):
            expected = f"sizes by name{self.or_word}" if self.kind == "sizes" else "a list of names"
            yield Mismatch(self.name, expected, value)
            return
        is_named = isinstance(value, Mapping)
        named = cast("Mapping[object, object]", value).items() if is_named else None
        entries = list(named or enumerate(cast("list[object]", value)))
        if len(entries) > MOST_ENTRIES:
            yield Mismatch(self.name, f"at most {MOST_ENTRIES}", len(entries))
            return
        for name, one in entries:
            if is_named and not _is_name(name):
                yield Mismatch(self.name, _NAME, name)
            elif not self._is_one(one):
                yield Mismatch(f"{self.name}.{name}", self.noun, one)

    def _members(self, value: object) -> Iterator[Mismatch]:
        if not isinstance(value, Mapping):
            yield Mismatch(self.name, self.noun, value)
            return
        members = {member.name: member for member in self.members}
        for name, one in cast("Mapping[str, object]", value).items():
            if name not in members:
                yield Mismatch(self.name, f"settings among {', '.join(sorted(members))}", name)
                continue
            for wrong in members[name].mismatches(one, is_cluster=False):
                yield replace(wrong, place=f"{self.name}.{wrong.place}")

    def _is_one(self, value: object) -> bool:
        if self.kind == "file":
            return isinstance(value, str | Path)
        if self.kind == "flag":
            return isinstance(value, bool)
        if self.kind not in _NUMBERS:
            return _is_name(value) and (
                not self.pattern or re.fullmatch(self.pattern, str(value)) is not None
            )
        if isinstance(value, bool) or not isinstance(
            value, Integral | float if self.kind == "number" else Integral
        ):
            return False
        number = cast("float", value)
        is_low = (self.least is not None and number < self.least) or (
            self.above is not None and number <= self.above
        )
        return abs(number) <= sys.float_info.max and not is_low and (self.most is None or number <= self.most)


def plain(value: object) -> object:
    """The value with whole numbers of Python in place of other ones, as those of numpy, also by name."""
    match value:
        case bool():
            return value
        case Integral():
            return int(value)
        case Mapping():
            entries = cast("Mapping[str, object]", value).items()
            return {name: plain(one) for name, one in entries}
        case _:
            return value


def _is_name(value: object) -> bool:
    if not isinstance(value, str) or not 1 <= len(value) <= MOST_CHARACTERS:
        return False
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)
