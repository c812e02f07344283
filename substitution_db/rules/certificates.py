"""Stored certificates, each with the equation it proves (which may name variables unlike the rule)."""

from __future__ import annotations

from superopt.axioms import AxiomSet
from superopt.equations import format_equation, parse_equation, rule_id
from superopt.errors import InvalidEquationError, InvalidFileError
from superopt.ir.terms import Equation
from superopt.substitution_db.store.records import JsonObject, Proof
from superopt.verifier.certificates.certificate import (
    Certificate,
    certificate_object,
    format_certificate,
    read_certificate,
)
from superopt.verifier.certificates.replay import replay


def stored_certificate(equation: Equation, certificate: Certificate) -> JsonObject:
    """The certificate in JSON, with its equation."""
    return {"equation": format_equation(equation), **certificate_object(certificate)}


def read_stored(content: JsonObject) -> tuple[Equation, Certificate]:
    """Reads an equation and its certificate. Raises InvalidFileError if they are malformed."""
    text = content.get("equation")
    if not isinstance(text, str):
        raise InvalidFileError(f"certificate: expected an equation, got {text!r}")
    try:
        equation = parse_equation(text)
    except InvalidEquationError as error:
        raise InvalidFileError(f"certificate: {error}") from error
    return equation, read_certificate(content)


def chain_of(rule: str, proof: Proof) -> str:
    """The chains that prove an equation, as text; empty without a certificate. Raises InvalidFileError."""
    if proof.certificate is None:
        return ""
    equation, certificate = read_stored(proof.certificate)
    text, chain = format_equation(equation), format_certificate(equation, certificate)
    return chain if text == rule else f"of {text}, the same rule with other variable names:\n\n{chain}"


def why_not_replayed(identity: str, proof: Proof, axioms: AxiomSet) -> str:
    """The reason why a certificate does not prove the rule with that id; empty if it does."""
    if proof.certificate is None:
        return "it has no certificate"
    try:
        equation, certificate = read_stored(proof.certificate)
        if rule_id(equation) != identity:
            return f"its certificate proves {format_equation(equation)}"
    except (InvalidFileError, RecursionError) as error:
        return str(error)
    unknown = sorted(set(certificate.axioms_used).difference(proof.axioms_used))
    if unknown:
        return f"its certificate uses axioms that its proof does not name: {', '.join(unknown)}"
    failure = replay(equation, axioms.by_name, certificate)
    return f"its certificate does not replay: {failure}" if failure else ""


__all__ = ["chain_of", "read_stored", "stored_certificate", "why_not_replayed"]
