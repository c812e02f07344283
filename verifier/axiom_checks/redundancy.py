"""Redundancy check: which axioms follow from the others (dissertation, section 2.4).

An axiom is redundant if the prover derives it from the other axioms and the chain replays. Axioms marked as
lemmas are kept to speed up proofs: they are not used to show that another axiom is redundant, and they should
follow from the axioms that are not lemmas.

The variables of an axiom stand for tensors with undefined elements: a chain for it takes axioms in directions
that they claim, and in both if it claims both itself.

``superopt.rewriting.derivability`` derives at given typings within a few steps; an axiom may be left out only
if a proof holds for all sizes, whatever its length, and its chain replays. Hence the prover, not a search.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from superopt.axioms import AxiomSet
from superopt.instances.sampler import InstanceSampler
from superopt.ir.terms import Direction, Equation
from superopt.verifier.axiom_checks.budgeted import Progress, Task, answers, hashes_of_code
from superopt.verifier.certificates.certificate import Certificate, format_certificate
from superopt.verifier.certificates.definedness import keeps_for_partial
from superopt.verifier.certificates.replay import replay
from superopt.verifier.content_cache import ContentCache
from superopt.verifier.prove.explanation import explain
from superopt.verifier.prove.proof_search import Proof, prove
from superopt.verifier.prove.solver import SolverLimits
from superopt.verifier.seeds import seed_of

LIMITS = SolverLimits(resources=1_000_000)
_CONCRETE, _FURTHER, _SYMBOLIC = 6, 12, 8


class Standing(enum.StrEnum):
    """Whether an axiom follows from the others: it does, it was not shown, or time did not suffice."""

    REDUNDANT = "redundant"
    INDEPENDENT = "independent"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class AxiomRedundancy:
    """What is known of one axiom; ``proof`` is the chain as text, ``reason`` says why there is none.

    ``independent`` means that no proof was found within the limits: that there is none cannot be shown.
    """

    name: str
    standing: Standing
    lemma: bool
    axioms_used: tuple[str, ...] = ()
    proof: str = ""
    reason: str = ""

    @property
    def is_offence(self) -> bool:
        """Whether the axiom could be left out and is not marked as a lemma."""
        return self.standing is Standing.REDUNDANT and not self.lemma


def check_redundancy(
    axioms: AxiomSet,
    *,
    names: Sequence[str] | None = None,
    jobs: int = 1,
    seconds: float | None = None,
    cache: ContentCache = ContentCache(None),  # noqa: B008
    limits: SolverLimits = LIMITS,
    progress: Progress | None = None,
) -> Iterator[AxiomRedundancy]:
    """Each axiom, or those named, in order; ``seconds`` is for all of them together.

    With ``jobs`` 0 everything is done in this process.
    """
    wanted = axioms.equations if names is None else tuple(axioms.by_name[name] for name in names)
    base = tuple(axiom for axiom in axioms.equations if axiom.name not in axioms.lemmas)
    task = Task(
        partial(_redundancy_in, axioms=axioms, limits=limits),
        _failed,
        _document,
        _read,
        ("redundancy", axioms.hash_of(axiom.name for axiom in base), axioms.hash, repr(limits), *_code()),
    )
    found = answers(wanted, task, cache=cache, jobs=jobs, seconds=seconds, progress=progress)
    for axiom, answer in found:
        known = answer or _failed(axiom, "the time did not suffice")
        yield _marked(known, lemma=axiom.name in axioms.lemmas)


def _redundancy_in(axiom: Equation, axioms: AxiomSet, limits: SolverLimits) -> AxiomRedundancy:
    base = tuple(each for each in axioms.beside(axiom) if each.name not in axioms.lemmas)
    return redundancy_of(axiom, base, limits)


def redundancy_of(
    axiom: Equation, base: Sequence[Equation], limits: SolverLimits = LIMITS
) -> AxiomRedundancy:
    """Whether the axiom follows from those of ``base`` that have another name.

    Raises IllTypedError for an axiom that cannot be typed.
    """
    one_way = axiom.direction is Direction.FORWARD
    usable = (each for each in base if one_way or each.direction is not Direction.FORWARD)
    others = {each.name: each for each in usable if each.name != axiom.name}
    sampler = InstanceSampler(axiom, seed_of(axiom, 21))
    sampled = tuple(itertools.islice(sampler.instances(8, 2), _CONCRETE + _FURTHER))
    concrete, further = sampled[:_CONCRETE], sampled[_CONCRETE:]
    symbolic = tuple(i for i in map(sampler.symbolic, sampler.schemes(_SYMBOLIC)) if i is not None)
    instances = (*concrete, *symbolic)
    proof = prove(axiom, tuple(others.values()), instances, further, limits=limits)
    if proof.proved:
        return _replayed(axiom, others, proof)
    return AxiomRedundancy(axiom.name, Standing.INDEPENDENT, lemma=False, reason=proof.reason)


def _replayed(axiom: Equation, others: Mapping[str, Equation], proof: Proof) -> AxiomRedundancy:
    certificate = explain(axiom, others, proof.steps)
    if certificate is None:
        failure = "no chain keeps definedness"
    else:
        failure = _against(others, certificate) or replay(axiom, others, certificate)
    if certificate is None or failure:
        reason = f"a proof was found, but its chain does not replay: {failure}"
        return AxiomRedundancy(axiom.name, Standing.INDEPENDENT, lemma=False, reason=reason)
    return AxiomRedundancy(
        axiom.name,
        Standing.REDUNDANT,
        lemma=False,
        axioms_used=certificate.axioms_used,
        proof=format_certificate(axiom, certificate),
    )


def _against(axioms: Mapping[str, Equation], certificate: Certificate) -> str:
    """Which axiom a chain uses against its direction; empty when there is none."""
    links = (link for chain in certificate.chains for link in chain)
    wrong = (
        link.axiom for link in links if not keeps_for_partial(axioms[link.axiom], backwards=link.backwards)
    )
    return next((f"{name} is used from right to left" for name in wrong), "")


def _failed(axiom: Equation, reason: str) -> AxiomRedundancy:
    return AxiomRedundancy(axiom.name, Standing.UNDECIDED, lemma=False, reason=reason)


def _marked(found: AxiomRedundancy, *, lemma: bool) -> AxiomRedundancy:
    return AxiomRedundancy(found.name, found.standing, lemma, found.axioms_used, found.proof, found.reason)


def _document(found: AxiomRedundancy) -> object:
    return [found.name, str(found.standing), list(found.axioms_used), found.proof, found.reason]


def _read(document: object) -> AxiomRedundancy:
    name, standing, used, proof, reason = cast("tuple[str, str, list[str], str, str]", document)
    return AxiomRedundancy(
        name, Standing(standing), lemma=False, axioms_used=tuple(used), proof=proof, reason=reason
    )


def _code() -> tuple[str, ...]:
    return hashes_of_code(("superopt.verifier.axiom_checks", "redundancy.py"))


__all__ = ["LIMITS", "AxiomRedundancy", "Standing", "check_redundancy", "redundancy_of"]
