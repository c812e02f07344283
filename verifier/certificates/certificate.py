"""Certificates: a proof as chains of axiom applications from one side of a rule to the other.

A chain starts at a term of the left side and ends at the corresponding term of the right side. Each link
replaces one subterm, an instance of one side of an axiom, by the other side. Certificates are untrusted:
``verifier.certificates.replay`` checks them.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias, cast

from superopt.equations import format_term, parse_number, parse_term
from superopt.errors import InvalidEquationError, InvalidFileError
from superopt.ir.numbers import AttributeVariable, NumberExpression, number_text
from superopt.ir.terms import AttributeTerm, Equation, Term

SCHEMA = 1

JsonObject: TypeAlias = "Mapping[str, object]"


class Grade(enum.StrEnum):
    """Grade of a proof. Verdicts have only this one; a file may claim another, and proofs stored before
    certificates existed have none."""

    REPLAYED = "replayed"
    """The certificate was replayed for all sizes."""


@dataclass(frozen=True, slots=True)
class Link:
    """One application of an axiom.

    ``path`` leads from the whole term to the replaced subterm: input indices, counted from 0. ``output`` is
    the index of the pair of terms of the axiom, and ``backwards`` means that its right side is replaced by
    its left side. ``terms`` and ``attributes`` are the values of the axiom's variables; ``term`` is the whole
    term after the step.
    """

    axiom: str
    backwards: bool
    path: tuple[int, ...]
    output: int
    terms: tuple[tuple[str, Term], ...]
    attributes: tuple[tuple[str, AttributeTerm], ...]
    term: Term


@dataclass(frozen=True, slots=True)
class Certificate:
    """One chain for each output of the rule; an empty chain means that both terms are equal."""

    chains: tuple[tuple[Link, ...], ...]

    @property
    def axioms_used(self) -> tuple[str, ...]:
        """The names of the axioms, sorted."""
        return tuple(sorted({link.axiom for chain in self.chains for link in chain}))

    @property
    def links(self) -> int:
        """The number of axiom applications."""
        return sum(len(chain) for chain in self.chains)


def format_certificate(goal: Equation, certificate: Certificate) -> str:
    """Return the proof as readable text: each line is a term, equal to the one above by the named axiom.

    Several outputs are separated by blank lines.
    """
    return "\n\n".join(
        "\n".join(_chain_lines(start, chain))
        for start, chain in zip(goal.left, certificate.chains, strict=True)
    )


def _chain_lines(start: Term, chain: Sequence[Link]) -> list[str]:
    terms = [f"  {format_term(start)}", *(f"= {format_term(link.term)}" for link in chain)]
    if not chain:
        return [*terms, f"= {format_term(start)}  the same term"]
    width = min(max(map(len, terms)), 96)
    reasons = ["", *map(_reason, chain)]
    return [f"{term:<{width}}  {reason}".rstrip() for term, reason in zip(terms, reasons, strict=True)]


def _reason(link: Link) -> str:
    reason = f"by {link.axiom}"
    if link.backwards:
        reason += ", right to left"
    if link.path:
        reason += f", at {' of '.join(f'input {index + 1}' for index in reversed(link.path))}"
    return reason


def certificate_object(certificate: Certificate) -> JsonObject:
    """Return the certificate as a JSON object; terms are text."""
    return {"schema": SCHEMA, "chains": [[_link_object(link) for link in c] for c in certificate.chains]}


def certificate_text(certificate: Certificate) -> str:
    """Return the certificate as one line of JSON."""
    return json.dumps(certificate_object(certificate), ensure_ascii=False, separators=(",", ":"))


def read_certificate(content: object) -> Certificate:
    """Read a certificate from a JSON object; raises InvalidFileError if it is malformed."""
    where = "certificate"
    parsed = _object(content, where)
    if parsed.get("schema") != SCHEMA:
        raise InvalidFileError(f"{where}: expected schema {SCHEMA}, got {parsed.get('schema')!r}")
    chains = _list(parsed.get("chains"), f"{where}: chains")
    return Certificate(
        tuple(
            tuple(
                _link(link, f"{where}: output {output}, link {number}")
                for number, link in enumerate(_list(chain, where), 1)
            )
            for output, chain in enumerate(chains)
        )
    )


def _link_object(link: Link) -> JsonObject:
    return {
        "axiom": link.axiom,
        "backwards": link.backwards,
        "path": list(link.path),
        "output": link.output,
        "terms": {name: format_term(term) for name, term in link.terms},
        "attributes": {name: _written(value) for name, value in link.attributes},
        "term": format_term(link.term),
    }


def _link(link: object, where: str) -> Link:
    content = _object(link, where)
    axiom, backwards, output = content.get("axiom"), content.get("backwards"), content.get("output")
    path = _list(content.get("path"), f"{where}: path")
    if not isinstance(axiom, str) or not isinstance(backwards, bool):
        raise InvalidFileError(f"{where}: expected an axiom and a direction, got {axiom!r} and {backwards!r}")
    if not all(_is_count(number) for number in (output, *path)):
        raise InvalidFileError(f"{where}: expected positions, got output {output!r} and path {path!r}")
    terms = _object(content.get("terms"), f"{where}: terms")
    attributes = _object(content.get("attributes"), f"{where}: attributes")
    return Link(
        axiom,
        backwards,
        tuple(cast("list[int]", path)),
        cast("int", output),
        tuple((name, _term(text, where)) for name, text in terms.items()),
        tuple((name, _read(value, where)) for name, value in attributes.items()),
        _term(content.get("term"), where),
    )


def _written(value: AttributeTerm) -> object:
    """Return numbers, keywords and tuples as JSON values, and variables and fractions as tagged objects."""
    match value:
        case AttributeVariable(name):
            return {"variable": name}
        case NumberExpression():
            return {"number": number_text(value)}
        case Fraction():
            return {"fraction": [value.numerator, value.denominator]}
        case tuple():
            return list(map(_written, cast("tuple[AttributeTerm, ...]", value)))
        case _:
            return value


def _read(value: object, where: str) -> AttributeTerm:
    if isinstance(value, str) or _is_integer(value):
        return cast("str | int", value)
    if isinstance(value, list):
        return cast("AttributeTerm", tuple(_part(part, where) for part in cast("list[object]", value)))
    content = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    name, fraction = content.get("variable"), content.get("fraction")
    if isinstance(name, str) and len(content) == 1:
        return AttributeVariable(name)
    if isinstance(fraction, list) and len(content) == 1:
        parts = cast("list[object]", fraction)
        if len(parts) == 2 and all(map(_is_integer, parts)) and parts[1] != 0:
            return Fraction(*cast("list[int]", parts))
    number = content.get("number")
    if isinstance(number, str) and len(content) == 1:
        return _number(number, where)
    raise InvalidFileError(f"{where}: expected an attribute, got {value!r}")


def _part(value: object, where: str) -> object:
    """A part of a tuple: a number or another tuple."""
    read = _read(value, where)
    if not isinstance(read, int | Fraction | tuple):
        raise InvalidFileError(f"{where}: expected numbers in a tuple, got {value!r}")
    return read


def _number(text: str, where: str) -> AttributeTerm:
    try:
        value = parse_number(text)
    except InvalidEquationError as error:
        raise InvalidFileError(f"{where}: {error}") from error
    if not isinstance(value, NumberExpression):
        raise InvalidFileError(f"{where}: expected a calculated number, got {text!r}")
    return value


def _term(text: object, where: str) -> Term:
    if not isinstance(text, str):
        raise InvalidFileError(f"{where}: expected a term, got {text!r}")
    try:
        return _parsed(text)
    except InvalidEquationError as error:
        raise InvalidFileError(f"{where}: {error}") from error


@lru_cache(maxsize=8192)
def _parsed(text: str) -> Term:
    return parse_term(text)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return _is_integer(value) and cast("int", value) >= 0


def _object(value: object, where: str) -> JsonObject:
    if not isinstance(value, dict):
        raise InvalidFileError(f"{where}: expected a JSON object, got {type(value).__name__}")
    return cast("JsonObject", value)


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise InvalidFileError(f"{where}: expected a list, got {type(value).__name__}")
    return cast("list[object]", value)


__all__ = [
    "Certificate",
    "Grade",
    "Link",
    "certificate_object",
    "certificate_text",
    "format_certificate",
    "read_certificate",
]
