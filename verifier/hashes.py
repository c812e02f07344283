"""Content hashes of the dependencies of a proof: the meaning of its operators, and the checker.

A hash covers definitions (``verifier.definitions``), not files, and changes if the results of these
definitions change. A proof depends on the operators in its rule and in its axioms, and on the definitions
that these refer to. It does not depend on other operators, on ONNX forms or on costs. Provers are not
covered, because their results are checked.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import cast

from superopt.axioms import AxiomSet
from superopt.ir.terms import Equation
from superopt.ops.base import OPERATORS
from superopt.verifier.content_cache import content_key, user_cache
from superopt.verifier.definitions import Closure, Place

PACKAGES = (
    "superopt.domains",
    "superopt.ir",
    "superopt.ops",
    "superopt.rewriting",
    "superopt.verifier",
)
"""Packages that may contain definitions that a proof depends on."""

CHECKER: tuple[Place, ...] = (
    ("superopt.ir.terms", "Equation"),
    ("superopt.verifier.certificates.certificate", "Certificate"),
    ("superopt.verifier.instances.sampler", "InstanceSampler"),
    ("superopt.verifier.refute.refutation", "Effort"),
    ("superopt.verifier.refute.refutation", "refute_on"),
    ("superopt.verifier.certificates.replay", "replay"),
    ("superopt.verifier.refute.validation", "validate_on"),
    ("superopt.verifier.goal", "Options"),
)
"""Functions that judge a rule and its chain, including those that draw instances."""

MEANING = ("infer", "evaluate", "evaluate_typed", "is_total")
"""Members that define the meaning of an operator."""


@dataclass(frozen=True)
class ContentHashes:
    """Hashes of 16 hex digits: ``axioms`` of the whole set, ``operators`` of all operators, ``verifier`` of
    the checker."""

    axioms: str
    operators: str
    verifier: str


@dataclass(frozen=True)
class _Meanings:
    """The hash of the checker and of each operator."""

    checker: str
    operators: Mapping[str, str]


def content_hashes(axioms: AxiomSet) -> ContentHashes:
    """Return the hashes of all axioms, all operators and the checker; a proof depends on parts of them."""
    return ContentHashes(axioms.hash, operators_hash(OPERATORS), verifier_hash())


def operators_hash(operators: Iterable[str]) -> str:
    """Return a hash that changes if the definitions that give one of these operators its meaning change."""
    known = _meanings().operators
    lines = (f"{known.get(name, 'missing')}\n" for name in sorted(set(operators)))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def verifier_hash() -> str:
    """Return a hash that changes if the code that types, refutes, replays or validates changes."""
    return _meanings().checker


@functools.lru_cache(maxsize=8192)
def operators_in(equation: Equation) -> frozenset[str]:
    """Return the operators of both sides."""
    return frozenset(term.operator for term in equation.applications)


def operators_of_proof(own: Iterable[str], axioms_used: Iterable[str], axioms: AxiomSet) -> frozenset[str]:
    """Return the given operators of a rule and those of the axioms that its proof uses.

    Every term of a chain consists of these. Axioms that no longer exist contribute none.
    """
    used = (axioms.by_name[name] for name in axioms_used if name in axioms.by_name)
    return frozenset(own).union(*map(operators_in, used))


def code_lines(source: str) -> str:
    """Return the source without blank lines and comment lines; the same under every version of Python."""
    lines = (line.rstrip() for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


@functools.cache
def _meanings() -> _Meanings:
    """Return the hashes, cached by the content of all sources in the user's cache directory, because parsing
    the sources takes longer than starting a command."""
    cache, key = user_cache("meanings"), content_key(_sources())
    known = cache.get(key)
    if isinstance(known, dict):
        checker, operators = cast("Mapping[str, object]", known).get("checker"), known.get("operators")  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]
        if isinstance(checker, str) and isinstance(operators, dict):
            return _Meanings(checker, cast("Mapping[str, str]", operators))
    meanings = meanings_now()
    cache.put(key, {"checker": meanings.checker, "operators": dict(meanings.operators)})
    return meanings


def meanings_now() -> _Meanings:
    """Compute the hashes from the sources."""
    places = {name: (cls.__module__, cls.__qualname__) for name, cls in OPERATORS.items()}
    checker = Closure(PACKAGES, frozenset(places.values()))
    checker.extend(CHECKER, MEANING)
    hashes: dict[str, str] = {}
    for name, place in places.items():
        own = checker.copy()
        own.extend((place,))
        hashes[name] = _hash(own.texts - checker.texts)
    return _Meanings(_hash(checker.texts), hashes)


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:16]


def _sources() -> Iterable[str]:
    """Yield the name and text of every module that may contain a definition."""
    for package in PACKAGES:
        folder = Path(str(resources.files(package)))
        for path in sorted(folder.rglob("*.py")):
            yield f"{package} {path.relative_to(folder).as_posix()}\n{path.read_text('utf-8')}"
