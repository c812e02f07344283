"""Comparison of two files of rules: rules lost and gained, changes of proofs and selection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from superopt.substitution_db.rules.exchange import read_shipped
from superopt.substitution_db.store.records import Proof
from superopt.substitution_db.store.rows import NewRule


@dataclass(frozen=True, slots=True)
class Changed:
    """A rule that both files contain, and its differences."""

    id: str
    equation: str
    what: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Equations by id of the rules in only one file, and the changed rules."""

    lost: dict[str, str]
    gained: dict[str, str]
    changed: tuple[Changed, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs except proof times."""
        return not (self.lost or self.gained or self.changed)


def compare(before: Path, after: Path) -> Comparison:
    """The differences between two files, ignoring proof times. Raises InvalidFileError."""
    old, new = ({rule.id: (rule, proof) for rule, proof in read_shipped(path)} for path in (before, after))
    return Comparison(
        lost={rule: old[rule][0].equation for rule in old if rule not in new},
        gained={rule: new[rule][0].equation for rule in new if rule not in old},
        changed=tuple(
            Changed(rule, new[rule][0].equation, what)
            for rule in new
            if rule in old and (what := tuple(_differences(*old[rule], *new[rule])))
        ),
    )


def _differences(old: NewRule, proved: Proof | None, new: NewRule, proof: Proof | None) -> Iterator[str]:
    if old.provenance != new.provenance:
        yield f"found by: {old.provenance} -> {new.provenance}"
    if old.selection != new.selection:
        yield f"why: {_why(old)} -> {_why(new)}"
    if proved is None or proof is None:
        if proved is not proof:
            yield "proof: only one has any"
        return
    if proved.verdict is not proof.verdict:
        yield f"verdict: {proved.verdict} -> {proof.verdict}"
    if proved.axioms_used != proof.axioms_used:
        yield f"axioms: {', '.join(proved.axioms_used)} -> {', '.join(proof.axioms_used)}"
    if _prover(proved) != _prover(proof):
        yield f"prover: {_prover(proved)} -> {_prover(proof)}"
    if proved.hashes != proof.hashes:
        yield "proved under other axioms, operators or another verifier"
    if _rest(proved) != _rest(proof):
        yield "proof: other steps, instances or grade"


def _why(rule: NewRule) -> str:
    return "not selected" if rule.selection is None else rule.selection.why


def _prover(proof: Proof) -> str:
    return f"{proof.prover} {proof.version}, confirmed by {proof.confirmed_by or 'none'}"


def _rest(proof: Proof) -> Proof:
    """The proof without the members that are compared separately."""
    return replace(
        proof,
        milliseconds=None,
        axioms_used=(),
        hashes=replace(proof.hashes, axioms="", operators="", verifier=""),
        prover="",
        version="",
        confirmed_by="",
    )


__all__ = ["Changed", "Comparison", "compare"]
