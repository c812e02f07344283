"""Import and export of rules: JSON lines (CONTRACTS, "library export") and text, one equation per line.

A line: ``{"schema":1,"id","equation","operators_source","operators_target","status","proof","provenance"}``,
and, after selection, ``"ships"`` and ``"why"``; operators are listed once per occurrence; ``proof`` is null
for a candidate, else ``{"verdict","prover","version",
"axioms_used","axioms_hash","operators_hash","verifier_hash","milliseconds","validated_shapes",
"counterexample","reason","grade","confirmed_by","certificate"}``, of which the last three may be missing;
``milliseconds`` is null if not recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from superopt.equations import parse_equation, text_id
from superopt.errors import InvalidEquationError, InvalidFileError, InvalidInputError
from superopt.files import write_atomically
from superopt.substitution_db.rules.repository import RuleRepository
from superopt.substitution_db.store.records import (
    Added,
    Evidence,
    Hashes,
    JsonObject,
    Outcome,
    Proof,
    Rule,
    Selection,
)
from superopt.substitution_db.store.rows import NewRule, new_rule

SCHEMA = 1

_PASSED_ON = re.compile(r"\A(?:import [^;]*; )+(?=.)")
"""Prefix of a provenance: the files that a rule was imported through."""

_MOST_NAMED = 10
"""Maximum number of wrong lines that an error names."""

_YEAR = 366 * 86_400_000
"""More milliseconds than a proof takes."""


@dataclass(frozen=True, slots=True)
class LibraryLine:
    """One parsed line of a rule file; its status and proof are not verified."""

    id: str
    status: str
    rule: NewRule
    proof: Proof | None


def export_rules(rules: Iterable[Rule], path: Path) -> int:
    """Writes rules as JSON lines by size and equation; returns how many. Raises InvalidFileError."""
    ordered = _ordered(rules)
    write_atomically(path, "".join(format_line(rule) + "\n" for rule in ordered).encode())
    return len(ordered)


def export_selected(rules: Iterable[Rule], path: Path) -> int:
    """``export_rules`` for selected rules, without proof times, so that the output is reproducible.

    Raises InvalidInputError if no rules are selected.
    """
    chosen = [_without_time(rule) for rule in rules if rule.selection is not None and rule.selection.ships]
    if not chosen:
        raise InvalidInputError("no rules are selected; run `superopt library select` first")
    return export_rules(chosen, path)


def export_left_out(rules: Iterable[Rule], path: Path) -> int:
    """Writes the rules that do not ship as text, ordered by size, each with the reason; returns how many."""
    chosen = [rule for rule in rules if rule.selection is not None and not rule.selection.ships]
    lines = (f"{r.equation}  # {r.selection.why}\n" for r in _ordered(chosen) if r.selection is not None)
    write_atomically(path, "".join(lines).encode())
    return len(chosen)


def _ordered(rules: Iterable[Rule]) -> list[Rule]:
    return sorted(rules, key=lambda r: (len(r.operators_source) + len(r.operators_target), r.equation, r.id))


def _without_time(rule: Rule) -> Rule:
    return rule if rule.proof is None else replace(rule, proof=replace(rule.proof, milliseconds=None))


def import_json_lines(path: Path, repository: RuleRepository) -> Added:
    """Stores the rules of a file as candidates, regardless of their status in the file. Atomic.

    Keeps the provenance of each rule; the file's name is used if a rule has none. Raises InvalidFileError,
    with the line number, for an invalid rule.
    """
    return repository.add_rules(
        replace(line.rule, provenance=line.rule.provenance or f"import {path.name}")
        for line in read_json_lines(path)
    )


def import_text(path: Path, repository: RuleRepository) -> Added:
    """Stores the equations of a text file, one per line (``#`` comments), as candidates. Atomic.

    Raises InvalidFileError, with the lines, if some are no rules.
    """
    return repository.add_rules(read_text(path))


def read_text(path: Path) -> tuple[NewRule, ...]:
    """The equations of a text file. Raises InvalidFileError, with the lines, if some are no rules."""
    rules: list[NewRule] = []
    wrong: list[str] = []
    for number, line in numbered_lines(path):
        equation = line.partition("#")[0].strip()
        try:
            if equation:
                parsed = parse_equation(equation, first_line=number)
                rules.append(new_rule(parsed, f"import {path.name}"))
        except InvalidEquationError as error:
            wrong.append(_located(str(error), number))
    if wrong:
        rest = len(wrong) - _MOST_NAMED
        named = [*wrong[:_MOST_NAMED], *([f"and {rest} more"] if rest > 0 else [])]
        raise InvalidFileError("; ".join([f"{path}: {named[0]}", *named[1:]]))
    return tuple(rules)


def _located(message: str, number: int) -> str:
    return message if message.startswith("line ") else f"line {number}: {message}"


def format_line(rule: Rule) -> str:
    """A rule as one line of JSON."""
    content: JsonObject = {
        "schema": SCHEMA,
        "id": rule.id,
        "equation": rule.equation,
        "operators_source": rule.operators_source,
        "operators_target": rule.operators_target,
        "status": str(rule.status),
        "proof": None if rule.proof is None else proof_object(rule.proof),
        "provenance": _found(rule.provenance),
    }
    if rule.selection is not None:
        content = {**content, "ships": rule.selection.ships, "why": rule.selection.why}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def proof_object(proof: Proof) -> JsonObject:
    """A proof as a JSON object."""
    return {
        "verdict": str(proof.verdict),
        "prover": proof.prover,
        "version": proof.version,
        "axioms_used": proof.axioms_used,
        "axioms_hash": proof.hashes.axioms,
        "operators_hash": proof.hashes.operators,
        "verifier_hash": proof.hashes.verifier,
        "milliseconds": None if proof.milliseconds is None else round(proof.milliseconds, 1),
        "validated_shapes": proof.validated_shapes,
        "counterexample": proof.counterexample,
        "reason": proof.reason,
        "grade": proof.grade,
        "confirmed_by": proof.confirmed_by,
        "certificate": proof.certificate,
    }


def evidence_object(evidence: Evidence) -> JsonObject:
    """Evidence against a rule as a JSON object."""
    return {
        "found_by": evidence.found_by,
        "model": evidence.model,
        "sha256": evidence.sha256,
        "seed": evidence.seed,
        "difference": evidence.difference,
    }


def read_json_lines(path: Path) -> tuple[LibraryLine, ...]:
    """The lines of a rule file. Raises InvalidFileError, with the line number, for an invalid rule."""
    return tuple(
        LibraryLine(
            id=line.id,
            status=line.status,
            rule=_rule(line.equation, line.provenance, line.where),
            proof=line.proof,
        )
        for line in _lines(path)
    )


def read_shipped(path: Path) -> Iterator[tuple[NewRule, Proof | None]]:
    """The rules of a library and their proofs.

    An equation whose id is the hash of its text is not parsed again; its operators are those listed in the
    line. Raises InvalidFileError, with the line number, for an invalid rule or an id that does not match its
    equation.
    """
    for line in _lines(path):
        if text_id(line.equation) == line.id:
            rule = NewRule(
                id=line.id,
                equation=line.equation,
                conditions=line.equation.partition(" where ")[2],
                operators_source=_texts(line.content, "operators_source", line.where),
                operators_target=_texts(line.content, "operators_target", line.where),
                generalizations=(),
                provenance=line.provenance,
                selection=_selection(line),
            )
        else:
            rule = replace(_rule(line.equation, line.provenance, line.where), selection=_selection(line))
            if rule.id != line.id:
                raise InvalidFileError(f"{line.where}: the id of {rule.equation} is {rule.id}, got {line.id}")
        yield rule, line.proof


@dataclass(frozen=True, slots=True)
class RawLine:
    """A line of a rule file with its equation unparsed; ``operators`` are of source and target."""

    id: str
    status: str
    equation: str
    operators: tuple[tuple[str, ...], tuple[str, ...]]
    proof: Proof | None


def read_raw_lines(path: Path) -> tuple[RawLine, ...]:
    """The lines of a rule file without parsing equations. Raises InvalidFileError, with the line number, for
    a malformed line.
    """
    return tuple(
        RawLine(
            line.id,
            line.status,
            line.equation,
            (
                _texts(line.content, "operators_source", line.where),
                _texts(line.content, "operators_target", line.where),
            ),
            line.proof,
        )
        for line in _lines(path)
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """A JSON line and its location ``where``, for messages."""

    where: str
    content: JsonObject
    id: str
    status: str
    equation: str
    provenance: str
    proof: Proof | None


def _lines(path: Path) -> Iterator[_Line]:
    for number, text in numbered_lines(path):
        yield _read_line(text, f"{path}:{number}")


def _read_line(text: str, where: str) -> _Line:
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(f"{where}: not JSON: {error}") from error
    line = _object(parsed, where)
    try:
        if "\\u" in text:
            json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidFileError(f"{where}: expected text, got half of a surrogate pair: {error}") from None
    if line.get("schema") != SCHEMA:
        raise InvalidFileError(f"{where}: expected schema {SCHEMA}, got {line.get('schema')!r}")
    proof = line.get("proof")
    return _Line(
        where=where,
        content=line,
        id=_text(line, "id", where),
        status=_text(line, "status", where),
        equation=_text(line, "equation", where),
        provenance=_found(_text(line, "provenance", where)),
        proof=None if proof is None else _proof(_object(proof, f"{where}: proof"), f"{where}: proof"),
    )


def _selection(line: _Line) -> Selection | None:
    ships = line.content.get("ships")
    if ships is None:
        return None
    if not isinstance(ships, bool):
        raise InvalidFileError(f"{line.where}: expected true or false for ships, got {ships!r}")
    return Selection(ships, _text(line.content, "why", line.where))


def _milliseconds(number: float, where: str) -> float:
    if not 0 <= number < _YEAR:
        raise InvalidFileError(f"{where}: expected milliseconds from 0 to {_YEAR:g}")
    return float(number)


def _proof(content: JsonObject, where: str) -> Proof:
    verdict = _text(content, "verdict", where)
    if verdict not in list(Outcome):
        raise InvalidFileError(f"{where}: expected a verdict of {', '.join(Outcome)}, got {verdict!r}")
    milliseconds = content.get("milliseconds")
    counterexample = content.get("counterexample")
    if not isinstance(milliseconds, int | float | None) or not isinstance(counterexample, str | None):
        raise InvalidFileError(
            f"{where}: expected a number or null for milliseconds, a string or null for counterexample"
        )
    certificate = content.get("certificate")
    return Proof(
        verdict=Outcome(verdict),
        prover=_text(content, "prover", where),
        version=_text(content, "version", where),
        axioms_used=_texts(content, "axioms_used", where),
        hashes=Hashes(
            axioms=_text(content, "axioms_hash", where),
            operators=_text(content, "operators_hash", where),
            verifier=_text(content, "verifier_hash", where),
        ),
        milliseconds=None if milliseconds is None else _milliseconds(milliseconds, where),
        validated_shapes=_texts(content, "validated_shapes", where),
        counterexample=counterexample,
        reason=_text(content, "reason", where),
        grade=_text({"grade": "", **content}, "grade", where),
        confirmed_by=_text({"confirmed_by": "", **content}, "confirmed_by", where),
        certificate=None if certificate is None else _object(certificate, f"{where}: certificate"),
    )


def _rule(text: str, provenance: str, where: str) -> NewRule:
    try:
        return new_rule(parse_equation(text), provenance)
    except InvalidEquationError as error:
        raise InvalidFileError(f"{where}: {error}") from error


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The non-blank lines, with their numbers from 1. Raises InvalidFileError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidFileError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidFileError(f"{path}: not UTF-8 text (byte {error.start})") from error
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _found(provenance: str) -> str:
    """The original provenance of a rule, without the files it was imported through."""
    return _PASSED_ON.sub("", provenance)


def _object(value: object, where: str) -> JsonObject:
    if not isinstance(value, dict):
        raise InvalidFileError(f"{where}: expected a JSON object, got {type(value).__name__}")
    return cast("JsonObject", value)


def _text(content: JsonObject, key: str, where: str) -> str:
    value = content.get(key)
    if not isinstance(value, str):
        raise InvalidFileError(f"{where}: expected a string for {key}, got {value!r}")
    return value


def _texts(content: JsonObject, key: str, where: str) -> tuple[str, ...]:
    value = content.get(key)
    items = cast("list[object]", value) if isinstance(value, list) else None
    if items is None or not all(isinstance(item, str) for item in items):
        raise InvalidFileError(f"{where}: expected a list of strings for {key}, got {value!r}")
    return tuple(cast("list[str]", items))
