"""Content hashes of what a proof depends on: the meaning of operators, and the verifier itself."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources

from axioms import AxiomSet

ALL = frozenset[str]()
_MEANING: Mapping[str, frozenset[str]] = {
    "superopt.ops": ALL,
    "superopt.domains": ALL,
    "superopt.ir": frozenset(("dimensions.py", "types.py")),
}
JUDGING = frozenset(
    (
        "attributes.py",
        "certificate.py",
        "chain.py",
        "concrete.py",
        "congruence.py",
        "cvc5_prover.py",
        "divided.py",
        "enumeration.py",
        "explanation.py",
        "instances.py",
        "positivity.py",
        "prove.py",
        "ranks.py",
        "refute.py",
        "replay.py",
        "requirements.py",
        "schemes.py",
        "seeds.py",
        "small_shapes.py",
        "smtlib.py",
        "solver.py",
        "stated.py",
        "validate.py",
        "verify.py",
    )
)
"""The modules of this room that a verdict comes from."""

_VERIFIER: Mapping[str, frozenset[str]] = {
    "verifier": JUDGING,
    "superopt.ir": frozenset(("terms.py",)),
    "superopt.rewriting": frozenset(("conditions.py", "divisions.py", "evaluation.py", "typing.py")),
}


@dataclass(frozen=True)
class ContentHashes:
    """16 hex digits each: ``axioms`` of the whole set, ``operators`` and ``verifier`` of their sources."""

    axioms: str
    operators: str
    verifier: str


def content_hashes(axioms: AxiomSet) -> ContentHashes:
    """The hashes under which a proof made now is current."""
    return ContentHashes(axioms.hash, operators_hash(), verifier_hash())


@functools.cache
def operators_hash() -> str:
    """Changes when the code that gives operators, numbers and types their meaning changes."""
    return _hash_of_sources(_MEANING)


@functools.cache
def verifier_hash() -> str:
    """Changes when the code that types, refutes, proves or validates changes."""
    return _hash_of_sources(_VERIFIER)


def code_lines(source: str) -> str:
    """The source without blank lines and lines of comment; the same under every version of Python."""
    lines = (line.rstrip() for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def _hash_of_sources(packages: Mapping[str, frozenset[str]]) -> str:
    digest = hashlib.sha256()
    for name, source in _sources(packages):
        digest.update(f"{name}\n{code_lines(source)}\n".encode())
    return digest.hexdigest()[:16]


def _sources(packages: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, str]]:
    for package, wanted in packages.items():
        for entry in sorted(resources.files(package).iterdir(), key=lambda entry: entry.name):
            name = f"{package}/{entry.name}"
            if entry.name.endswith(".py") and (wanted is ALL or entry.name in wanted):
                yield name, entry.read_text("utf-8")
