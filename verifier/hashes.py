"""Content hashes of what a proof depends on: the meaning of the operators in it, and the checker.

A hash is over definitions (``verifier.definitions``), not over files: it changes when what they compute
changes. A proof depends on the operators in its rule and in its axioms, and on what these refer to; not on
other operators, nor on how an operator is written in ONNX or what it costs. The provers are no part of it:
what they find is checked.
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
from superopt.ir.terms import Equation, applications
from superopt.ops.base import OPERATORS
from superopt.verifier.content_cache import content_key, user_cache
from superopt.verifier.definitions import Closure, Place

PACKAGES = (
    "superopt.domains",
    "superopt.instances",
    "superopt.ir",
    "superopt.ops",
    "superopt.rewriting",
    "superopt.verifier",
)
"""Where definitions that a proof depends on can be."""

CHECKER: tuple[Place, ...] = (
    ("superopt.ir.terms", "Equation"),
    ("superopt.verifier.certificates.certificate", "Certificate"),
    ("superopt.instances.sampler", "InstanceSampler"),
    ("superopt.verifier.refute.refutation", "Effort"),
    ("superopt.verifier.refute.refutation", "refute_on"),
    ("superopt.verifier.certificates.replay", "replay"),
    ("superopt.verifier.refute.validation", "validate_on"),
    ("superopt.verifier.verify", "Options"),
)
"""What judges a rule and its chain, with the instances that it draws."""

MEANING = ("infer", "evaluate", "evaluate_typed", "is_total")
"""The members of an operator that say what it is."""


@dataclass(frozen=True)
class ContentHashes:
    """16 hex digits each: ``axioms`` of the whole set, ``operators`` of all of them, ``verifier`` of the
    checker."""

    axioms: str
    operators: str
    verifier: str


@dataclass(frozen=True)
class _Meanings:
    """The hash of the checker, and that of each operator."""

    checker: str
    operators: Mapping[str, str]


def content_hashes(axioms: AxiomSet) -> ContentHashes:
    """The hashes of everything; a proof that was made now depends on parts of it."""
    return ContentHashes(axioms.hash, operators_hash(OPERATORS), verifier_hash())


def operators_hash(operators: Iterable[str]) -> str:
    """Changes when the definitions that give one of these operators its meaning change."""
    known = _meanings().operators
    lines = (f"{known.get(name, 'missing')}\n" for name in sorted(set(operators)))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def verifier_hash() -> str:
    """Changes when the code that types, refutes, replays or validates changes."""
    return _meanings().checker


@functools.lru_cache(maxsize=8192)
def operators_in(equation: Equation) -> frozenset[str]:
    """The operators of both sides."""
    return frozenset(term.operator for term in applications(*equation.left, *equation.right))


def operators_of_proof(own: Iterable[str], axioms_used: Iterable[str], axioms: AxiomSet) -> frozenset[str]:
    """The operators of a rule, which are given, and those of the axioms that its proof uses.

    Every term of a chain is made of these. Axioms that are gone have none.
    """
    used = (axioms.by_name[name] for name in axioms_used if name in axioms.by_name)
    return frozenset(own).union(*map(operators_in, used))


def code_lines(source: str) -> str:
    """The source without blank lines and lines of comment; the same under every version of Python."""
    lines = (line.rstrip() for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


@functools.cache
def _meanings() -> _Meanings:
    """The hashes, remembered in the user's cache directory by the content of all sources: parsing them takes
    longer than the start of a command."""
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
    """The hashes, computed from the sources."""
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
    """The text of every module in which a definition can be, with where it is."""
    for package in PACKAGES:
        folder = Path(str(resources.files(package)))
        for path in sorted(folder.rglob("*.py")):
            yield f"{package} {path.relative_to(folder).as_posix()}\n{path.read_text('utf-8')}"
