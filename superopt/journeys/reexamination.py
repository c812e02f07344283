"""Re-examination of one rule; a suspect rule is proved again only if its evidence no longer holds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from superopt.errors import InvalidOptionError, SuperoptError
from superopt.ir import Equation
from superopt.journeys.library.judging import prove_equation
from superopt.journeys.replay import repeated
from superopt.optimizer.pipeline.reporting.report import section_of
from superopt.rewriting import substitutions_of
from superopt.substitution_db import Database, Outcome, Rule, RuleStatus
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.store.records import Evidence, Proof
from superopt.substitution_db.store.rows import equation_of
from superopt.verifier.pool import judge_for_good


@dataclass(frozen=True)
class Reexamination:
    """The result for a rule; ``standing`` is the remaining evidence, with reasons."""

    status: RuleStatus
    standing: tuple[str, ...] = ()
    reason: str = ""


def reexamine(database: Database, identity: str, model: Path | None = None) -> Reexamination:
    """Proves a rule again and records the verdict. A suspect rule is proved only if all evidence is about
    ``model``, and its outputs no longer differ or their differences say nothing about a rule (see
    ``bisection.jumps``); the evidence is then dismissed.

    Raises InvalidOptionError for an unknown rule, UnjudgedError if the machine ends every try to prove it.
    """
    rule = database.rules.get(identity)
    if rule is None:
        raise InvalidOptionError(f"there is no rule {identity}; `superopt library list` shows all")
    standing = tuple(why for found in rule.evidence if (why := _standing(database, rule, found, model)))
    if standing:
        return Reexamination(RuleStatus.SUSPECT, standing)
    equation = equation_of(rule.id, rule.equation)
    ((_, proof),) = judge_for_good(prove_equation, [equation], lost=_lost)
    database.rules.record_verdict(identity, proof)
    if rule.evidence:
        database.quarantine.dismiss(
            identity, f"shows no fault of the rule when repeated with superopt {version('superopt')}"
        )
    return Reexamination(RuleStatus(proof.verdict), (), proof.counterexample or proof.reason)


def _standing(database: Database, rule: Rule, evidence: Evidence, model: Path | None) -> str:
    """The reason why a piece of evidence still holds; empty if it does not."""
    if model is None:
        return f"{evidence}; to re-examine it, give that model with --model"
    sha256 = hashlib.sha256(_content(model)).hexdigest()
    if sha256 != evidence.sha256:
        return f"{evidence}; {model} is another model (sha256 {sha256[:16]})"
    own = substitutions_of(equation_of(rule.id, rule.equation), rule.id)
    report = {**evidence.report, "model": {**section_of(evidence.report, "model"), "sha256": sha256}}
    try:
        found = repeated(model, report, own, database=database.url, seed=evidence.seed)
    except SuperoptError as error:
        return f"{evidence}; it cannot be repeated: {error}"
    return "" if found is None or found.passed else f"{evidence}; and now: {found.why}"


def _content(model: Path) -> bytes:
    try:
        return model.read_bytes()
    except OSError as error:
        raise InvalidOptionError(f"model: {model} cannot be read: {error.strerror}") from None


def _lost(_: Equation, reason: str) -> Proof:
    return Proof(Outcome.UNPROVED, "", "", (), current().hashes, None, (), None, reason)
