"""Replays the certificate of a rule that was proved before, under new instances; no prover takes part."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.errors import SuperoptError
from superopt.ir.terms import Equation
from verifier.certificate import Certificate
from verifier.instances import Instance, InstanceSampler
from verifier.replay import replay
from verifier.seeds import seed_of

SCHEMES = 24
_STREAM = 7


def recheck(equation: Equation, axioms: Mapping[str, Equation], certificate: Certificate) -> str:
    """Empty when the certificate replays at every choice of ranks and attributes that is met, else why not.

    Each choice is tried with symbols for sizes, which is for all sizes, and with numbers.
    """
    concrete: list[Instance] = []
    symbolic: list[Instance] = []
    try:
        sampler = InstanceSampler(equation, seed_of(equation, _STREAM))
        for scheme in {scheme.kind: scheme for scheme in sampler.schemes(SCHEMES)}.values():
            concrete.extend(sampler.concrete(scheme, 1))
            general = sampler.symbolic(scheme)
            if general is not None:
                symbolic.append(general)
    except (SuperoptError, RecursionError) as error:
        return f"no instances: {error}"
    if not symbolic:
        return "no instance with symbols for sizes was found"
    return replay(equation, axioms, certificate, (*symbolic, *concrete))


__all__ = ["recheck"]
