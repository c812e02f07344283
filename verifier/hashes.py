"""Content hashes of what a proof depends on: the meaning of operators, and the verifier itself."""

from __future__ import annotations

import functools
import hashlib
import io
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

from axioms import AxiomSet

_MEANING = ("superopt.ops", "superopt.domains", "superopt.rewriting")
_VERIFIER = ("verifier", "superopt.equations", "superopt.ir")
_IRRELEVANT = frozenset((tokenize.COMMENT, tokenize.NL))


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
    """Changes when the code that gives operators and numbers their meaning changes."""
    return _hash_of_sources(_MEANING)


@functools.cache
def verifier_hash() -> str:
    """Changes when the code that refutes, proves or validates changes."""
    return _hash_of_sources(_VERIFIER)


def code_without_comments(source: str) -> str:
    """The tokens that matter: comments and blank lines gone."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return "\n".join(f"{t.type} {t.string}" for t in tokens if t.type not in _IRRELEVANT)


def _hash_of_sources(packages: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for package in packages:
        for name, source in _sources(package):
            digest.update(f"{package}/{name}\n{code_without_comments(source)}\n".encode())
    return digest.hexdigest()[:16]


def _sources(package: str) -> Iterable[tuple[str, str]]:
    entries = sorted(resources.files(package).iterdir(), key=lambda entry: entry.name)
    return [(entry.name, entry.read_text("utf-8")) for entry in entries if entry.name.endswith(".py")]
