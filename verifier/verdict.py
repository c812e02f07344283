"""Verdicts on equations, without the code that finds them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from superopt.verifier.certificates.certificate import Certificate, Grade


class Status(enum.StrEnum):
    """The verdict on an equation."""

    VERIFIED = "verified"
    REFUTED = "refuted"
    UNPROVED = "unproved"


CONTRADICTED = "proved, but an unpredictable instance is a counterexample: "
"""Prefix of the reason of a verdict that reveals a false axiom or an error of the checker."""


@dataclass(frozen=True)
class Verdict:
    """Verdict on an equation and its basis; hashes cover what the proof used, and are empty without a proof.

    ``confirmed_by`` is a second prover, with its version, that derives the rule from the axioms used.
    """

    status: Status
    prover: str = ""
    version: str = ""
    confirmed_by: str = ""
    grade: Grade | None = None
    certificate: Certificate | None = None
    axioms_used: tuple[str, ...] = ()
    axioms_hash: str = ""
    operators_hash: str = ""
    verifier_hash: str = ""
    milliseconds: float = 0.0
    validated_shapes: tuple[str, ...] = ()
    counterexample: str | None = None
    reason: str = ""

    @property
    def is_contradicted(self) -> bool:
        """Whether what was proved was then refuted."""
        return self.reason.startswith(CONTRADICTED)
