"""Conversion between database rows and records of rules and proofs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from superopt.equations import format_condition, format_equation, parse_equation, rule_id
from superopt.errors import InvalidEquationError, InvalidFileError
from superopt.ir.terms import Direction, Equation, Term, applications
from superopt.rewriting import substitutions_of
from superopt.substitution_db.store.engine import upsert
from superopt.substitution_db.store.models import Base, ProofRow, RuleOperatorRow, RuleRow
from superopt.substitution_db.store.records import (
    Evidence,
    Hashes,
    Outcome,
    Proof,
    Rule,
    RuleStatus,
    Selection,
)

_BATCH = 500


@dataclass(frozen=True, slots=True)
class NewRule:
    """A rule to be stored; operators are listed once per occurrence, sorted. ``selection`` is None if
    unknown.
    """

    id: str
    equation: str
    conditions: str
    operators_source: tuple[str, ...]
    operators_target: tuple[str, ...]
    generalizations: tuple[str, ...]
    provenance: str
    selection: Selection | None = None

    @property
    def operators(self) -> frozenset[str]:
        """The operators of both sides."""
        return frozenset((*self.operators_source, *self.operators_target))


def new_rule(equation: Equation, provenance: str, generalizations: Iterable[Equation] = ()) -> NewRule:
    """A rule from an equation; ``=`` is read as ``<=>``. Generalizations equal to the equation are dropped.

    Raises InvalidEquationError for an equation that cannot be used as a rule.
    """
    if equation.direction is Direction.EQUAL:
        equation = replace(equation, direction=Direction.BOTH)
    identity = rule_id(equation)
    substitutions_of(equation, identity)
    return NewRule(
        id=identity,
        equation=format_equation(replace(equation, name="")),
        conditions=", ".join(format_condition(condition) for condition in equation.conditions),
        operators_source=operators_of(equation.left),
        operators_target=operators_of(equation.right),
        generalizations=tuple(format_equation(g) for g in generalizations if rule_id(g) != identity),
        provenance=provenance,
    )


def equation_of(rule: str, text: str) -> Equation:
    """The equation of a stored rule. Raises InvalidFileError, with the rule's id, for an invalid equation."""
    try:
        return parse_equation(text)
    except InvalidEquationError as error:
        raise InvalidFileError(
            f"rule {rule} of the database is not a valid equation ({error}); `superopt gate` lists such rules"
        ) from error


def insert_rules(session: Session, rules: Iterable[NewRule], time: datetime) -> frozenset[str]:
    """Inserts rules that are not stored yet, as candidates; returns their ids."""
    inserted: set[str] = set()
    remaining = iter({rule.id: rule for rule in rules}.values())
    while batch := tuple(islice(remaining, _BATCH)):
        new = insert_new(session, RuleRow, [_rule_values(rule, time) for rule in batch], (RuleRow.id.name,))
        operators = [values for rule in batch if rule.id in new for values in _operator_values(rule)]
        if operators:
            session.execute(insert(RuleOperatorRow), operators)
        inserted |= new
    return frozenset(inserted)


def insert_new(
    session: Session, table: type[Base], values: Sequence[Mapping[str, object]], key: tuple[str, ...]
) -> set[str]:
    """Inserts rows with new keys; returns the first key column of each inserted row."""
    statement = upsert(session, table).on_conflict_do_nothing(index_elements=list(key))
    return set(session.scalars(statement.returning(table.__table__.c[key[0]]), [dict(v) for v in values]))


def record_selections(session: Session, choices: Mapping[str, Selection]) -> None:
    """Records for these rules (by id) whether they ship, and why."""
    values = [{"id": rule, "ships": choice.ships, "why": choice.why} for rule, choice in choices.items()]
    if values:
        session.execute(update(RuleRow), values)


def insert_proofs(session: Session, proofs: Mapping[str, Proof], time: datetime) -> None:
    """Adds a proof to each rule (by id) and sets the rule's status to the verdict."""
    if not proofs:
        return
    session.execute(insert(ProofRow), [proof_values(rule, proof, time) for rule, proof in proofs.items()])
    statuses = [{"id": rule, "status": str(proof.verdict)} for rule, proof in proofs.items()]
    session.execute(update(RuleRow), statuses)


def rule_of(row: RuleRow, proof: ProofRow | None) -> Rule:
    """A row as a value."""
    sides: dict[str, list[str]] = {"source": [], "target": []}
    for operator in row.operators:
        sides[operator.side].extend([operator.operator] * operator.occurrences)
    evidence = standing_evidence(row)
    return Rule(
        id=row.id,
        equation=row.equation,
        conditions=row.conditions,
        operators_source=tuple(sides["source"]),
        operators_target=tuple(sides["target"]),
        status=RuleStatus.SUSPECT if evidence else RuleStatus(row.status),
        generalizations=tuple(row.generalizations),
        provenance=row.provenance,
        proof=None if proof is None else proof_of(proof),
        created_at=row.created_at,
        selection=None if row.ships is None else Selection(row.ships, row.why or ""),
        evidence=evidence,
    )


def standing_evidence(row: RuleRow) -> tuple[Evidence, ...]:
    """The evidence against a rule that was not dismissed, oldest first."""
    return tuple(
        Evidence(found.found_by, found.model, found.sha256, found.seed, found.difference, found.report)
        for found in row.suspicions
        if found.dismissed_at is None
    )


def proof_of(row: ProofRow) -> Proof:
    """A row as a value."""
    return Proof(
        verdict=Outcome(row.verdict),
        prover=row.prover,
        version=row.version,
        axioms_used=tuple(row.axioms_used),
        hashes=Hashes(row.axioms_hash, row.operators_hash, row.verifier_hash),
        milliseconds=row.milliseconds or None,
        validated_shapes=tuple(row.validated_shapes),
        counterexample=row.counterexample,
        reason=row.reason,
        grade=row.grade or "",
        confirmed_by=row.confirmed_by or "",
        certificate=row.certificate,
    )


def proof_values(rule: str, proof: Proof, time: datetime) -> dict[str, object]:
    """A proof as the columns of its row."""
    return {
        "rule_id": rule,
        "verdict": str(proof.verdict),
        "prover": proof.prover,
        "version": proof.version,
        "axioms_used": list(proof.axioms_used),
        "axioms_hash": proof.hashes.axioms,
        "operators_hash": proof.hashes.operators,
        "verifier_hash": proof.hashes.verifier,
        "milliseconds": proof.milliseconds or 0.0,
        "validated_shapes": list(proof.validated_shapes),
        "counterexample": proof.counterexample,
        "reason": proof.reason,
        "grade": proof.grade or None,
        "confirmed_by": proof.confirmed_by or None,
        "certificate": proof.certificate,
        "proved_at": time,
    }


def operators_of(terms: Sequence[Term]) -> tuple[str, ...]:
    """The operators of terms, sorted, once per occurrence."""
    return tuple(sorted(term.operator for term in applications(*terms)))


def _rule_values(rule: NewRule, time: datetime) -> dict[str, object]:
    return {
        "id": rule.id,
        "equation": rule.equation,
        "conditions": rule.conditions,
        "size": len(rule.operators_source) + len(rule.operators_target),
        "status": str(RuleStatus.CANDIDATE),
        "generalizations": list(rule.generalizations),
        "provenance": rule.provenance,
        "created_at": time,
        "ships": None if rule.selection is None else rule.selection.ships,
        "why": None if rule.selection is None else rule.selection.why,
    }


def _operator_values(rule: NewRule) -> list[dict[str, object]]:
    return [
        {"rule_id": rule.id, "side": side, "operator": operator, "occurrences": count}
        for side, names in (("source", rule.operators_source), ("target", rule.operators_target))
        for operator, count in sorted(Counter(names).items())
    ]
