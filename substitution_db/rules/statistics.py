"""Statistics of a library: rules by state, preset and size, operator family, and kind of proof."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from superopt.ops.base import OPERATORS
from superopt.substitution_db.store.records import Proof, RuleStatus, Selection

REPLAYED = "replayed"
_SHARE = re.compile(r"\d+%")
_PROVENANCE = re.compile(r"(?P<preset>.+), (?P<operators>\d+) operators")


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a rule: a preset and the largest number of operators of its graphs, or another source."""

    preset: str
    max_ops: int | None = None

    def __str__(self) -> str:
        return self.preset if self.max_ops is None else f"{self.preset}, {self.max_ops} operators"

    @staticmethod
    def of(provenance: str) -> Origin:
        """The origin in a provenance such as ``matrix, 3 operators``."""
        found = _PROVENANCE.fullmatch(provenance)
        return Origin(found["preset"], int(found["operators"])) if found else Origin(provenance)


@dataclass(frozen=True, slots=True)
class Facts:
    """The properties of a rule that are counted; milliseconds is None without a proof."""

    status: RuleStatus
    conditional: bool
    provenance: str
    operators_source: tuple[str, ...]
    milliseconds: float | None = None
    grade: str = ""
    confirmed_by: str = ""

    @staticmethod
    def of(
        status: RuleStatus, conditions: str, provenance: str, source: tuple[str, ...], proof: Proof | None
    ) -> Facts:
        """The facts of a rule and its proof."""
        if proof is None:
            return Facts(status, conditions != "", provenance, source)
        known = proof.milliseconds, proof.grade, proof.confirmed_by
        return Facts(status, conditions != "", provenance, source, *known)


@dataclass(frozen=True, slots=True)
class OriginCount:
    """Verified rules of one origin, by the number of operators of their source."""

    origin: Origin
    by_size: Mapping[int, int]
    conditional: int

    @property
    def rules(self) -> int:
        """Their total."""
        return sum(self.by_size.values())


@dataclass(frozen=True, slots=True)
class RuleStatistics:
    """Counts of rules; all but ``by_status`` cover verified rules only.

    A rule counts for the operators and families of its source; ``confirmed`` rules have a second prover.
    """

    by_status: Mapping[RuleStatus, int]
    by_origin: tuple[OriginCount, ...]
    verified_by_operator: Mapping[str, int]
    verified_by_family: Mapping[str, int]
    conditional: int
    replayed: int
    confirmed: int
    median_milliseconds: float | None


def statistics_of(rules: Iterable[Facts]) -> RuleStatistics:
    """The counts."""
    every = tuple(rules)
    verified = [rule for rule in every if rule.status is RuleStatus.VERIFIED]
    statuses = Counter(rule.status for rule in every)
    operators = Counter(name for rule in verified for name in set(rule.operators_source))
    families = Counter(f for rule in verified for f in set(map(family_of, rule.operators_source)))
    times = [rule.milliseconds for rule in verified if rule.milliseconds is not None]
    return RuleStatistics(
        by_status={status: statuses[status] for status in RuleStatus},
        by_origin=tuple(_by_origin(verified)),
        verified_by_operator=dict(sorted(operators.items())),
        verified_by_family=dict(sorted(families.items())),
        conditional=sum(rule.conditional for rule in verified),
        replayed=sum(rule.grade == REPLAYED for rule in verified),
        confirmed=sum(rule.confirmed_by != "" for rule in verified),
        median_milliseconds=median(times) if times else None,
    )


def kinds_of_selection(choices: Iterable[Selection]) -> Sequence[tuple[Selection, int]]:
    """Number of rules that ship, or do not, by kind of reason (numbers and names removed), most frequent
    first.
    """
    counts = Counter(replace(choice, why=_kind(choice.why)) for choice in choices)
    return sorted(counts.items(), key=lambda item: (not item[0].ships, -item[1], item[0].why))


def _kind(why: str) -> str:
    return _SHARE.sub("some", why.partition(":")[0])


_ONE_FAMILY = ("bilinear", "gradients")
"""Packages of operators whose modules are no families of their own."""


def family_of(operator: str) -> str:
    """The family of an operator: its module, or the package of modules that are one family; ``other`` for an
    operator that no longer exists."""
    known = OPERATORS.get(operator)
    if known is None:
        return "other"
    _, _, package, *modules = known.__module__.split(".")
    return modules[0] if modules and package not in _ONE_FAMILY else package


def _by_origin(verified: Iterable[Facts]) -> Iterable[OriginCount]:
    grouped: dict[Origin, list[Facts]] = {}
    for rule in verified:
        grouped.setdefault(Origin.of(rule.provenance), []).append(rule)
    for origin, rules in sorted(grouped.items(), key=lambda item: (item[0].preset, item[0].max_ops or 0)):
        sizes = Counter(len(rule.operators_source) for rule in rules)
        yield OriginCount(origin, dict(sorted(sizes.items())), sum(rule.conditional for rule in rules))
