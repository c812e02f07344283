"""Output of one rule as text and JSON: equation, picture, proof, axioms, counterexample."""

from __future__ import annotations

from superopt.axioms import load_axioms
from superopt.cli.output import Output
from superopt.equations import abbreviated, format_equation, picture
from superopt.errors import InvalidFileError
from superopt.substitution_db import Rule
from superopt.substitution_db.rules.certificates import chain_of
from superopt.substitution_db.rules.exchange import evidence_object, proof_object
from superopt.substitution_db.store.records import Proof
from superopt.substitution_db.store.rows import equation_of
from superopt.verifier.certificates.certificate import Grade

_GRADES = {Grade.REPLAYED: "replayed: all terms of the chain are well-typed in every case"}


def rule_document(rule: Rule) -> dict[str, object]:
    """The rule as a JSON document."""
    return {
        "id": rule.id,
        "equation": rule.equation,
        "picture": picture(equation_of(rule.id, rule.equation)).splitlines(),
        "operators_source": list(rule.operators_source),
        "operators_target": list(rule.operators_target),
        "status": str(rule.status),
        "proof": dict(proof_object(rule.proof)) if rule.proof else None,
        "chain": _chain(rule, rule.proof).splitlines() if rule.proof else [],
        "provenance": rule.provenance,
        "evidence": [evidence_object(evidence) for evidence in rule.evidence],
        "ships": None if rule.selection is None else rule.selection.ships,
        "why": None if rule.selection is None else rule.selection.why,
    }


def print_rule(rule: Rule, output: Output) -> None:
    """Prints the rule as text; at the end the whole equation, if it was abbreviated."""
    output.line(rule.equation)
    output.line(f"\n{_indented(picture(equation_of(rule.id, rule.equation)))}\n")
    pairs: dict[str, object] = {"id": rule.id, "status": rule.status, "provenance": rule.provenance}
    if rule.selection is not None:
        pairs["ships"] = f"{'yes' if rule.selection.ships else 'no'}: {rule.selection.why}"
    if rule.evidence:
        pairs["evidence"] = "; ".join(map(str, rule.evidence))
    proof = rule.proof
    output.pairs(pairs | ({} if proof is None else _facts(proof)))
    if proof is not None:
        _print_proof(rule, proof, output)
    if abbreviated(rule.equation) != rule.equation:
        output.line("\nin full:")
        output.exact_line(f"  {rule.equation}")


def _print_proof(rule: Rule, proof: Proof, output: Output) -> None:
    chain = _chain(rule, proof)
    if chain:
        output.line(f"\nproof:\n{_indented(chain)}")
    if proof.axioms_used:
        output.line("\naxioms used:")
        for name in proof.axioms_used:
            _print_axiom(name, output)


def _facts(proof: Proof) -> dict[str, object]:
    facts: dict[str, object] = {
        "prover": f"{proof.prover} {proof.version}{_time(proof)}" if proof.prover else "",
        "grade": next((said for grade, said in _GRADES.items() if grade == proof.grade), proof.grade),
        "also derived by": proof.confirmed_by,
        "validated on": "; ".join(proof.validated_shapes),
        "counterexample": proof.counterexample,
        "reason": proof.reason,
    }
    return {name: fact for name, fact in facts.items() if fact}


def _time(proof: Proof) -> str:
    return "" if proof.milliseconds is None else f", {proof.milliseconds:.0f} ms"


def _chain(rule: Rule, proof: Proof) -> str:
    try:
        return chain_of(rule.equation, proof)
    except InvalidFileError as error:
        return f"cannot be read: {error}"


def _print_axiom(name: str, output: Output) -> None:
    axioms = load_axioms()
    equation = axioms.by_name.get(name)
    output.line(f"  {name}: {format_equation(equation) if equation else 'no longer an axiom'}")
    if name in axioms.reasons:
        output.line(f"    {axioms.reasons[name]}")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
