"""Parser of our own rule files in the form of peers' files."""

from __future__ import annotations

from pathlib import Path

from superopt.equations import parse_equation, rule_id
from superopt.errors import IllTypedError, InvalidEquationError
from superopt.journeys.library.peers.reading import Claim, Malformed, PeerRule, Reading
from superopt.rewriting import substitutions_of
from superopt.substitution_db.rules.exchange import numbered_lines, read_json_lines


def read_own_json(path: Path) -> tuple[PeerRule, ...]:
    """The rules of JSON lines, named by their ids. Raises InvalidFileError for an invalid line."""
    return tuple(
        PeerRule(index, line.id, _reading(line.rule.equation))
        for index, line in enumerate(read_json_lines(path))
    )


def read_own_text(path: Path) -> tuple[PeerRule, ...]:
    """The equations of a text file, one per line. Raises InvalidFileError for a file that is not text."""
    entries = ((number, line.partition("#")[0].strip()) for number, line in numbered_lines(path))
    written = [(number, text) for number, text in entries if text]
    return tuple(PeerRule(i, f"line {number}", _reading(text)) for i, (number, text) in enumerate(written))


def _reading(text: str) -> Reading:
    try:
        equation = parse_equation(text)
        substitutions_of(equation, rule_id(equation))
    except (InvalidEquationError, IllTypedError) as error:
        return Malformed(str(error))
    return Claim(equation, equation)
