"""Identity test of one equation in all its cases: types first, then values.

The error probability, and its meaning for equations with order or exponentials, is described in ``degrees``.
A case whose exponentials may be any function is decided for all functions at once; in particular an attribute
variable for an activation stands for an arbitrary elementwise function (as in the dissertation, section 2.4,
where activations are uninterpreted), and only where that fails are the activations tried one by one. A
difference must show twice, from independent random inputs: a denominator that happens to be zero is no
counterexample. Where a function is arbitrary in the model (``log``, ``erf``, powers) or has no sign
(``sqrt``), what holds by its laws over the reals differs; there, partial real numbers decide.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np

from superopt.domains import FloatDomain, PartialDomain
from superopt.instances.program import Case, Program
from superopt.instances.values import Bound
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Equation
from superopt.ir.types import TensorType
from superopt.ops.base import Operator, attributes_of, operator_from_attributes
from superopt.ops.elementwise.activation import ACTIVATIONS
from superopt.verifier.axiom_checks.exhaustive.degrees import DegreeDomain, bits_per_evaluation, evaluations
from superopt.verifier.axiom_checks.exhaustive.images import all_cases
from superopt.verifier.axiom_checks.exhaustive.residues import ResidueDomain, Residues
from superopt.verifier.refinement import awkward_inputs, first_difference
from superopt.verifier.seeds import seed_of

BLOCK = 256
"""Cases that share one stream of random numbers, so that work can go on from any block."""

_RELATIVE_TOLERANCE = 1e-6
_REAL_INPUTS = 8


@dataclass(frozen=True)
class Tested:
    """After one block: cases of the bound decided so far by residues, the largest error as -log2, cases
    compared on real numbers, and what failed."""

    position: int
    cases: int
    error_bits: float
    real: int
    failure: str | None
    block: tuple[Case, ...]


@dataclass(frozen=True)
class _Profile:
    """What evaluating needs: shadows, exponents, how often; whether that depends on sizes, and whether a
    function is arbitrary."""

    ordered: bool
    has_exp: bool
    stack: int
    error_bits: float
    sized: bool
    arbitrary: bool


@dataclass
class IdentityTest:
    """All cases of one equation, block by block; of ``every`` so many cases one."""

    equation: Equation
    bound: Bound
    every: int = 1
    _any_function: bool = True
    _profiles: dict[object, _Profile] = field(default_factory=dict[object, _Profile])

    def run(
        self, position: int = 0, cases: int = 0, error_bits: float = float("inf"), real: int = 0
    ) -> Iterator[Tested]:
        """What is known after each block, from ``position`` on; the last one has nothing to do.

        Ends at the first failure.
        """
        agreed: set[object] = set()
        differing: dict[object, Case] = {}
        seen = 0
        for block in self.blocks():
            seen += len(block)
            for case in block if self.program.has_implicit else ():
                if case.agree:
                    agreed.add(case.key)
                else:
                    differing.setdefault(case.key, case)
            if seen <= position:
                yield Tested(seen, cases, error_bits, real, None, block)
                continue
            failure = None
            generator = np.random.default_rng([seed_of(self.equation, 11), seen])
            for case in block[:: self.every]:
                failure, bits = self._tested(case, generator)
                if failure is not None:
                    break
                if bits is None:
                    real += self.multiplicity
                elif case.agree:
                    cases += self.multiplicity
                    error_bits = min(error_bits, bits)
            yield Tested(seen, cases, error_bits, real, failure, block)
            if failure is not None:
                return
        for key, case in differing.items():
            if key not in agreed:
                yield Tested(seen, cases, error_bits, real, self._type_failure(case), ())
                return

    def blocks(self) -> Iterator[tuple[Case, ...]]:
        """All cases, also those in which output types differ."""
        cases = all_cases(self.program, self.bound)
        while block := tuple(itertools.islice(cases, BLOCK)):
            yield block

    @cached_property
    def program(self) -> Program:
        """The equation, compiled."""
        return Program(self.equation)

    @cached_property
    def multiplicity(self) -> int:
        """How many cases of the bound one case stands for: all activations."""
        return cast("int", len(ACTIVATIONS) ** len(self._activation_variables))

    @cached_property
    def _activation_variables(self) -> tuple[str, ...]:
        names = (
            value.name
            for step in self.program.steps
            for attribute, value in step.term.attributes
            if attribute == "activation" and isinstance(value, AttributeVariable)
        )
        return tuple(dict.fromkeys(names))

    def _tested(self, case: Case, generator: np.random.Generator) -> tuple[str | None, float | None]:
        """The failure, or None with -log2 of the error; without it where real numbers were compared."""
        if not case.agree:
            return (None if self.program.has_implicit else self._type_failure(case)), float("inf")
        if self._any_function:
            profile = self._profile(case, exponential=False)
            if not self._differs(case, profile, generator, exponential=False):
                return None, profile.error_bits
            if not profile.has_exp:
                return self._confirmed(case, profile, generator)
        bits: float | None = float("inf")
        for chosen in self._with_activations(case):
            profile = self._profile(chosen, exponential=True)
            failure: str | None = None
            own: float | None = profile.error_bits
            if self._differs(chosen, profile, generator, exponential=True):
                failure, own = self._confirmed(chosen, profile, generator)
            if failure is not None:
                return failure, own
            bits = None if own is None or bits is None else min(bits, own)
        self._any_function = False
        return None, bits

    def _with_activations(self, case: Case) -> Iterator[Case]:
        """The case with every activation in turn."""
        names = self._activation_variables
        for values in itertools.product(ACTIVATIONS, repeat=len(names)):
            chosen = dict(zip(names, values, strict=True))
            if not chosen:
                yield case
                return
            operators = [
                _with_attributes(
                    operator,
                    {
                        attribute: chosen[value.name]
                        for attribute, value in step.term.attributes
                        if isinstance(value, AttributeVariable) and value.name in chosen
                    },
                )
                for step, operator in zip(self.program.steps, case.operators, strict=True)
            ]
            yield Case(case.types, {**case.attributes, **chosen}, tuple(operators), case.outputs, agree=True)

    def _confirmed(
        self, case: Case, profile: _Profile, generator: np.random.Generator
    ) -> tuple[str | None, float | None]:
        if not self._differs(case, profile, generator, exponential=profile.has_exp):
            return None, profile.error_bits
        shown = self._real_difference(case, generator) if profile.arbitrary else self._shown(case, generator)
        if shown is None:
            return None, None
        instance = self.program.instance(case)
        return f"{instance}: {shown}" if str(instance) else shown, 0

    def _real_difference(self, case: Case, generator: np.random.Generator) -> str | None:
        """An element at which the equation fails on partial real numbers, or None."""
        types = {str(place): type_ for place, type_ in enumerate(case.types)}
        inputs = awkward_inputs(generator, _REAL_INPUTS, types)
        pairs = self.program.evaluated(PartialDomain(), case, list(inputs.values()))
        for output, (left, right) in enumerate(pairs):
            found = first_difference(self.equation.direction, left, right, output)
            if found is not None:
                return str(found)
        return None

    def _type_failure(self, case: Case) -> str:
        inferred = self.program.inferred(case.types, case.operators)
        left, right = next(
            (inferred[a], inferred[b]) for a, b in self.program.outputs if inferred[a] != inferred[b]
        )
        return f"{self.program.instance(case)}: left has type {left}, right has type {right}"

    def _profile(self, case: Case, *, exponential: bool) -> _Profile:
        ranks = tuple(type_.rank for type_ in case.types)
        kind = (exponential, ranks, tuple(sorted((n, repr(v)) for n, v in case.attributes.items())))
        found = self._profiles.get(kind)
        if found is None or found.sized:
            found = self._profiles[kind] = self._measured(case, exponential=exponential)
        return found

    def _measured(self, case: Case, *, exponential: bool) -> _Profile:
        domain = DegreeDomain(exponential=exponential)
        inputs = [domain.variable(_shape(type_)) for type_ in case.types]
        pairs = self.program.evaluated(domain, case, inputs)
        degree = max(domain.error_degree(left, right) for left, right in pairs)
        with_exponents = exponential and domain.has_exp
        stack = evaluations(degree, ordered=domain.has_order, exponential=with_exponents)
        bits = stack * bits_per_evaluation(degree, exponential=with_exponents)
        return _Profile(
            domain.has_order,
            domain.has_exp,
            stack,
            bits,
            domain.has_sized_sums,
            domain.has_arbitrary_functions,
        )

    def _differs(
        self, case: Case, profile: _Profile, generator: np.random.Generator, *, exponential: bool
    ) -> bool:
        domain = ResidueDomain(ordered=profile.ordered, exponential=exponential and profile.has_exp)
        inputs = [domain.random(generator, profile.stack, _shape(type_)) for type_ in case.types]
        pairs = self.program.evaluated(domain, case, inputs)
        return any(
            not _equal(left, right, _shape(type_))
            for (left, right), type_ in zip(pairs, case.outputs, strict=True)
        )

    def _shown(self, case: Case, generator: np.random.Generator) -> str:
        """An element that differs over floats."""
        domain = FloatDomain(np.float64)
        inputs = [np.round(2 * generator.normal(size=(16, *_shape(type_))), 3) for type_ in case.types]
        with np.errstate(all="ignore"):
            pairs = self.program.evaluated(domain, case, inputs)
        for index, (left, right) in enumerate(pairs):
            output = f"output {index}: " if len(pairs) > 1 else ""
            if left.shape[1:] != right.shape[1:]:
                return f"{output}left evaluates to shape {left.shape[1:]}, right to {right.shape[1:]}"
            a, b = np.broadcast_arrays(left, right)
            scale = 1 + np.nanmax(np.abs(np.where(np.isfinite(a) & np.isfinite(b), a, 0)), initial=0)
            both = np.isfinite(a) & np.isfinite(b)
            distance = np.abs(np.where(both, a, 0) - np.where(both, b, 0))
            found = np.argwhere((distance > _RELATIVE_TOLERANCE * scale) | (np.isfinite(a) != np.isfinite(b)))
            if len(found):
                place = tuple(int(i) for i in found[0])
                at = f"[{', '.join(str(i) for i in place[1:])}]"
                return f"{output}left{at} = {a[place]:.6g}, right{at} = {b[place]:.6g}"
        return "the sides differ in a prime field but not over floats"


def _equal(left: Residues, right: Residues, shape: tuple[int, ...]) -> bool:
    """Equal residues of the shape that the types promise."""
    if left.residue.shape[1:] != shape or right.residue.shape[1:] != shape:
        return False
    return bool((left.residue == right.residue).all())


def _with_attributes(operator: Operator, changed: Mapping[str, object]) -> Operator:
    if not changed:
        return operator
    return operator_from_attributes(operator.name, attributes_of(operator) | dict(changed))


def _shape(type_: TensorType) -> tuple[int, ...]:
    return cast("tuple[int, ...]", type_.array_shape)


__all__ = ["BLOCK", "IdentityTest", "Tested"]
