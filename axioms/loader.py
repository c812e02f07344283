"""Loads ``*.axioms`` files into one set with unique names and a hash of what they say."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

from superopt.equations import format_equation, parse_equations
from superopt.errors import InvalidEquationError
from superopt.ir.terms import Equation


@dataclass(frozen=True)
class AxiomSet:
    """Named equations; ``families`` says which file each name came from."""

    equations: tuple[Equation, ...]
    families: Mapping[str, str]

    @functools.cached_property
    def by_name(self) -> Mapping[str, Equation]:
        """Each equation by its name."""
        return {equation.name: equation for equation in self.equations}

    @functools.cached_property
    def hash(self) -> str:
        """16 hex digits that change when any axiom changes."""
        return self.hash_of(self.by_name)

    def hash_of(self, names: Iterable[str]) -> str:
        """16 hex digits that change when one of these axioms changes or is missing."""
        entries = (self._entry(name) for name in sorted(set(names)))
        return hashlib.sha256("\n".join(entries).encode()).hexdigest()[:16]

    def with_equations(self, *equations: Equation, family: str = "added") -> AxiomSet:
        """The set with further equations."""
        families = dict(self.families) | {equation.name: family for equation in equations}
        return AxiomSet((*self.equations, *equations), families)

    def _entry(self, name: str) -> str:
        equation = self.by_name.get(name)
        return f"{name}: {format_equation(equation)}" if equation else f"{name} is missing"


@functools.cache
def load_axioms() -> AxiomSet:
    """The axioms of this package; raises InvalidEquationError for a file that does not parse."""
    files = sorted(
        (entry for entry in resources.files("axioms").iterdir() if entry.name.endswith(".axioms")),
        key=lambda entry: entry.name,
    )
    return axioms_from_text({entry.name.removesuffix(".axioms"): entry.read_text("utf-8") for entry in files})


def axioms_from_text(texts: Mapping[str, str]) -> AxiomSet:
    """Axioms from the text of each family; raises InvalidEquationError, also for a missing or double name."""
    equations: list[Equation] = []
    families: dict[str, str] = {}
    for family, text in texts.items():
        try:
            parsed = parse_equations(text)
        except InvalidEquationError as error:
            raise InvalidEquationError(f"{family}.axioms: {error}") from None
        for equation in parsed:
            if not equation.name or equation.name in families:
                what = format_equation(equation)
                raise InvalidEquationError(
                    f"{family}.axioms: expected a new name, got {equation.name!r}, for {what}"
                )
            families[equation.name] = family
        equations.extend(parsed)
    return AxiomSet(tuple(equations), families)
