"""Claims: rules that a file or database marks as verified, read for independent checking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from superopt.axioms import AxiomSet
from superopt.equations import format_equation, parse_equation, rule_id, spelled, text_id
from superopt.errors import InvalidEquationError, SuperoptError
from superopt.ir.terms import Direction, Equation
from superopt.processes.garbage import seldom_collecting
from superopt.substitution_db.rules.certificates import read_stored, why_not_replayed
from superopt.substitution_db.rules.currency import Currency
from superopt.substitution_db.rules.exchange import RawLine, read_raw_lines
from superopt.substitution_db.store.records import Outcome, Proof, Rule, RuleStatus
from superopt.substitution_db.store.rows import operators_of
from superopt.verifier.certificates.certificate import Grade
from superopt.verifier.refute.refutation import BRIEF, refute

UNCLAIMED = (RuleStatus.CANDIDATE, RuleStatus.REFUTED, RuleStatus.UNPROVED)
"""States of rules that are never applied."""

_FORMERLY = (RuleStatus.STALE, RuleStatus.SUSPECT)
"""States of rules whose proof has the verdict verified."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A rule marked as verified. ``operators`` are those it lists for source and target; ``fault`` is an
    inconsistency already found while reading it, empty if none.
    """

    id: str
    equation: str
    operators: tuple[tuple[str, ...], tuple[str, ...]]
    status: str
    proof: Proof | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Claims:
    """All claims of a source, and the number of its rules without a claim."""

    claims: tuple[Claim, ...]
    unclaimed: Mapping[RuleStatus, int]

    def and_also(self, other: Claims) -> Claims:
        """The union; identical claims are counted once."""
        counts = Counter(self.unclaimed) + Counter(other.unclaimed)
        return Claims(tuple(dict.fromkeys((*self.claims, *other.claims))), counts)


def claims_of_file(path: Path) -> Claims:
    """The claims of a JSON lines file. Raises InvalidFileError for a malformed line."""
    lines = read_raw_lines(path)
    often = {rule: count for rule, count in Counter(line.id for line in lines).items() if count > 1}
    unclaimed = Counter(RuleStatus(line.status) for line in lines if _is_unclaimed(line, often))
    claiming = (line for line in lines if not _is_unclaimed(line, often))
    return Claims(tuple(_of_line(line, often.get(line.id, 1)) for line in claiming), unclaimed)


def _is_unclaimed(line: RawLine, often: Container[str]) -> bool:
    agrees = line.proof is None or line.proof.verdict == line.status
    return line.status in UNCLAIMED and agrees and line.id not in often


def _of_line(line: RawLine, times: int) -> Claim:
    fault = f"{times} lines of the file have its id" if times > 1 else ""
    if line.proof is not None and line.proof.verdict != line.status and line.status not in _FORMERLY:
        fault = fault or f"status is {line.status}, the verdict of its proof is {line.proof.verdict}"
    return Claim(line.id, line.equation, line.operators, line.status, line.proof, fault)


def claim_of_rule(rule: Rule, fault: str = "") -> Claim:
    """The claim of a stored rule with its latest proof."""
    operators = (rule.operators_source, rule.operators_target)
    return Claim(rule.id, rule.equation, operators, str(rule.status), rule.proof, fault)


def claim_of_proof(equation: Equation, proof: Proof) -> Claim:
    """The claim of a new proof, with a fault if its verdict is not verified."""
    rule = replace(equation, direction=_direction(equation), name="")
    fault = "" if proof.verdict is Outcome.VERIFIED else _unverified(proof)
    operators = operators_of(rule.left), operators_of(rule.right)
    return Claim(rule_id(rule), format_equation(rule), operators, str(proof.verdict), proof, fault)


def _direction(equation: Equation) -> Direction:
    return Direction.BOTH if equation.direction is Direction.EQUAL else equation.direction


def _unverified(proof: Proof) -> str:
    return f"the new verdict is {proof.verdict}: {proof.counterexample or proof.reason}"


def why_not_current(claim: Claim, currency: Currency) -> str:
    """The reason why the hashes of a claim are out of date, empty if they are current: its id (the hash of
    its text) and the hashes of what its proof depends on. The proof itself is not checked.
    """
    if claim.fault:
        return claim.fault
    if text_id(claim.equation) != claim.id:
        try:
            actual = rule_id(parse_equation(claim.equation))
        except (InvalidEquationError, RecursionError) as error:
            return _no_equation(error)
        if actual != claim.id:
            return f"the id of the equation is {actual}"
    is_stale = claim.status == RuleStatus.STALE
    status, operators = RuleStatus.VERIFIED if is_stale else claim.status, chain(*claim.operators)
    reason = currency.reason(status, frozenset(operators), claim.proof)
    return reason or ("status is stale, and its proof is not" if is_stale else "")


def why_not_proved(claim: Claim, axioms: AxiomSet) -> str:
    """The reason why a claim's certificate does not prove it, empty if it does. Parses the text, compares it
    with the certificate's equation, evaluates it at random, and replays the proof.
    """
    with seldom_collecting():
        return next(_reasons(claim, axioms), "")


def _reasons(claim: Claim, axioms: AxiomSet) -> Iterator[str]:
    try:
        equation = parse_equation(claim.equation)
    except (InvalidEquationError, RecursionError) as error:
        yield _no_equation(error)
        return
    text = format_equation(equation)
    if text != claim.equation or equation.direction is Direction.EQUAL:
        yield f"its text is not in canonical form: expected {text}"
    actual = operators_of(equation.left), operators_of(equation.right)
    if actual != claim.operators:
        yield f"it lists the operators {_named(claim.operators)}, its equation has {_named(actual)}"
    if claim.proof is None:
        yield "it has no proof"
        return
    yield from _certified(equation, claim.proof)
    found = counterexample_of(equation)
    if found:
        yield f"random evaluation refutes it: {found}"
    reason = why_not_replayed(rule_id(equation), claim.proof, axioms)
    if reason:
        yield reason


def counterexample_of(equation: Equation) -> str:
    """A counterexample to an equation among newly drawn random instances; empty if none is found."""
    return refute(equation, BRIEF, None).counterexample or ""


def _certified(equation: Equation, proof: Proof) -> Iterator[str]:
    """The reason why a certificate is not about the equation, compared in canonical text form; empty if it
    is.
    """
    if proof.grade != Grade.REPLAYED:
        yield f"its grade is {proof.grade or 'not known'}, not {Grade.REPLAYED}"
    if proof.certificate is None:
        yield "it has no certificate"
        return
    try:
        proved, _ = read_stored(proof.certificate)
        if format_equation(spelled(proved)) != format_equation(spelled(equation)):
            yield f"its certificate proves {format_equation(proved)}"
    except (SuperoptError, RecursionError) as error:
        yield str(error)


def _no_equation(error: Exception) -> str:
    what = "nested too deep" if isinstance(error, RecursionError) else str(error)
    return f"its text is no equation: {what}"


def _named(operators: Sequence[Sequence[str]]) -> str:
    return " => ".join(", ".join(names) or "none" for names in operators)


__all__ = [
    "UNCLAIMED",
    "Claim",
    "Claims",
    "claim_of_proof",
    "claim_of_rule",
    "claims_of_file",
    "counterexample_of",
    "why_not_current",
    "why_not_proved",
]
