"""Axiom schemas: equations for every operator with some traits, and their instances as text.

A schema is a line ``for f in TRAIT and not TRAIT:`` with indented equations below it. ``f`` is replaced by
each operator with the traits: ``{f}`` in an equation's name becomes the operator's name with hyphens; in
``f(x)``, omitted attributes and side inputs become variables, the same at every occurrence of f. A mark
``ring if TRAIT and not TRAIT`` or ``lemma if ...`` applies to operators with those traits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from superopt.equations.entries import Entry
from superopt.errors import InvalidEquationError
from superopt.ops.base import OPERATORS, attribute_names
from superopt.ops.traits import operators_with, trait_names

_HEAD = re.compile(r"for +(\w+) +in +(.+?) *:\s*(?:#.*)?")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CONDITIONAL_MARK = re.compile(r"(ring|lemma) if ([\w ]+)(?=[,:])")
_ATTRIBUTES = "efghijklmnop"
_SIDE_INPUTS = "wvutsr"
_OPENING, _CLOSING = "([", ")]"


def instances(entry: Entry) -> Iterator[Entry]:
    """The equations of an entry: itself, or one for each operator of its schema.

    Raises InvalidEquationError for an unknown trait, for traits that no operator combines, for a name without
    the placeholder, and for inputs or attributes that an operator does not have.
    """
    if not entry.head:
        yield entry
        return
    matched = _HEAD.fullmatch(entry.head)
    if matched is None:
        raise _error(entry, "expected `for NAME in TRAIT and not TRAIT:`")
    placeholder, traits = matched.groups()
    label = entry.text.partition(":")[0]
    if f"{{{placeholder}}}" not in label:
        raise _error(entry, f"expected {{{placeholder}}} in the name {label!r}, to name each instance")
    found = (
        replace(entry, text=_Instance(entry, placeholder, operator).text, comment=_marked(entry, operator))
        for operator in sorted(_operators(entry, traits))
    )
    yield from sorted(found, key=lambda instance: instance.comment)


def _operators(entry: Entry, traits: str) -> frozenset[str]:
    chosen = frozenset(OPERATORS)
    for clause in re.split(r" +and +", traits):
        name = clause.removeprefix("not ").strip()
        having = operators_with(name)
        if having is None:
            known = ", ".join(trait_names())
            raise _error(entry, f"unknown trait {name}; known: {known}, and names of operators")
        chosen = chosen - having if clause.startswith("not ") else chosen & having
    if not chosen:
        raise _error(entry, "no operator has these traits")
    return chosen


def _marked(entry: Entry, operator: str) -> str:
    """The comment of an instance: a mark ``ring if TRAIT`` is kept if the operator has the traits."""
    marks, colon, reason = entry.comment.partition(":")
    if not _CONDITIONAL_MARK.search(marks + colon):
        return entry.comment
    kept: list[str] = []
    for mark in marks.split(","):
        name, _, traits = mark.strip().partition(" if ")
        kept += [name] * (not traits or operator in _operators(entry, traits))
    return f"{', '.join(kept)}:{reason}" if kept else reason.strip()


@dataclass(frozen=True)
class _Instance:
    """An equation of a schema for one operator."""

    entry: Entry
    placeholder: str
    operator: str

    @property
    def text(self) -> str:
        """The equation with the operator in place of the placeholder."""
        label, colon, body = self.entry.text.partition(":")
        named = label.replace(f"{{{self.placeholder}}}", self.operator.replace("_", "-"))
        return named + colon + self._written(body)

    def _written(self, text: str) -> str:
        matched = re.search(rf"\b{self.placeholder}(?=[\[(])", text)
        if matched is None:
            return text
        attributes, rest = self._bracketed(text[matched.end() :], "[")
        inputs, rest = self._bracketed(rest, "(")
        return f"{text[: matched.start()]}{self._application(attributes, inputs)}{self._written(rest)}"

    def _application(self, attributes: str, inputs: str) -> str:
        given = _parts(attributes)
        names = {part.partition("=")[0].strip() for part in given}
        given += [f"{name}={letter}" for name, letter in self._variables.items() if name not in names]
        operands = [self._written(part) for part in _parts(inputs)]
        kind = OPERATORS[self.operator]
        if len(operands) == kind.inputs - kind.side_inputs:
            operands += self._side_inputs
        if len(operands) != kind.inputs:
            expected = f"{kind.inputs} inputs, {kind.side_inputs} of them side inputs"
            raise _error(self.entry, f"{self.operator} has {expected}; got {len(operands)}")
        bracket = f"[{', '.join(given)}]" if given else ""
        return f"{self.operator}{bracket}({', '.join(operands)})"

    def _bracketed(self, text: str, opening: str) -> tuple[str, str]:
        """The content of the bracket at the start of a text, and the text after it."""
        if not text.startswith(opening):
            return "", text
        depth = 0
        for index, character in enumerate(text):
            depth += (character in _OPENING) - (character in _CLOSING)
            if depth == 0:
                return text[1:index], text[index + 1 :]
        raise _error(self.entry, f"unclosed bracket in {text!r}")

    @cached_property
    def _taken(self) -> frozenset[str]:
        body = self.entry.text.partition(":")[2]
        return frozenset(_NAME.findall(re.sub(rf"\b{self.placeholder}(?=[\[(])", "", body)))

    @cached_property
    def _variables(self) -> dict[str, str]:
        """A variable for each attribute that is not determined by types."""
        implicit = OPERATORS[self.operator].implicit
        names = [name for name in attribute_names(self.operator) if name not in implicit]
        return dict(zip(names, self._free(_ATTRIBUTES), strict=False))

    @cached_property
    def _side_inputs(self) -> list[str]:
        return self._free(_SIDE_INPUTS)[: OPERATORS[self.operator].side_inputs]

    def _free(self, letters: str) -> list[str]:
        return [letter for letter in letters if letter not in self._taken]


def _parts(text: str) -> list[str]:
    """A list split at its top-level commas."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts] if text.strip() else []


def _error(entry: Entry, message: str) -> InvalidEquationError:
    return InvalidEquationError(f"line {entry.line}: {message}, in the schema {entry.head!r}")
