"""Second prover: cvc5 on the same shapeless problem, with axiom instances extracted from its proof.

It shares only the text of the problem with Z3. It confirms proofs of Z3, and may find others, since its
enumerative instantiation tries any term of the problem (Reynolds, Barbosa and Fontaine 2018, "Revisiting
Enumerative Instantiation").
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import enum
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, cast

from superopt.ir.terms import AttributeTerm, Equation, Term
from superopt.solver_memory import require_memory
from superopt.verifier.prove.smtlib import Vocabulary, axiom_command, goal_command, quantified_names
from superopt.verifier.prove.solver import Answer, AxiomInstance, SolverLimits

Expression = Any  # cvc5 has no types

PROVER = "cvc5"
_NAME = "problem"
_PER_UNIT = 20
"""Limits are in Z3's resource units; this many are worth one unit of cvc5, which takes about 0.01 ms."""

_LONGEST_SEARCH = SolverLimits(resources=4_000_000)

NOT_INSTALLED = "cvc5, the second prover, is not installed (pip install 'superopt[discovery]')"


class Search(enum.StrEnum):
    """How cvc5 instantiates quantifiers."""

    PATTERNS = "patterns"
    ENUMERATION = "enumeration"


_COMMON: Mapping[str, str] = {
    "cegqi": "false",
    "inst-max-rounds": "12",
    "miniscope-quant": "off",
    "var-elim-quant": "false",
}
_OPTIONS: Mapping[Search, Mapping[str, str]] = {
    Search.PATTERNS: {},
    Search.ENUMERATION: {"enum-inst": "true"},
}


@cache
def is_installed() -> bool:
    """Whether cvc5 is installed; without it nothing is confirmed, and some rules are not proved."""
    return importlib.util.find_spec("cvc5") is not None


def prover_version() -> str:
    """Return the version of cvc5."""
    import cvc5

    return str(cvc5.__version__)


def confirms(goal: Equation, axioms: Sequence[Equation], limits: SolverLimits = _LONGEST_SEARCH) -> bool:
    """Whether cvc5 also derives the goal from these axioms, as shapeless terms; fast for few axioms."""
    return is_installed() and any(_Problem(goal, axioms, search, limits).solve() == "" for search in Search)


def ask(goal: Equation, axioms: Sequence[Equation], search: Search, limits: SolverLimits) -> Answer:
    """Ask whether the goal follows from the axioms as shapeless terms; only ``unsat`` counts as a proof.

    The steps are those that cvc5's proof uses. Only the limit on resources applies; cvc5 has no memory
    limit. Raises MemoryError if cvc5 runs out of memory.
    """
    if not is_installed():
        return Answer(proved=False, steps=(), reason=NOT_INSTALLED)
    problem = _Problem(goal, axioms, search, limits, {"produce-proofs": "true"})
    reason = problem.solve()
    return Answer(proved=not reason, steps=() if reason else problem.steps(), reason=reason)


class _Problem:
    """One query to cvc5."""

    def __init__(
        self,
        goal: Equation,
        axioms: Sequence[Equation],
        search: Search,
        limits: SolverLimits,
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        import cvc5

        self._axioms = axioms
        self._vocabulary = Vocabulary()
        commands = [axiom_command(axiom, self._vocabulary) for axiom in axioms]
        commands.append(goal_command(goal, self._vocabulary))
        self._text = "\n".join(("(set-logic UF)", *self._vocabulary.declarations(), *commands))
        self._options = {**_COMMON, **_OPTIONS[search], **_limiting(limits), **options}
        self._solver = cvc5.Solver(cvc5.TermManager())

    def solve(self) -> str:
        """Return an empty string if the goal follows, otherwise the reason why that is unknown."""
        try:
            for option, value in self._options.items():
                self._solver.setOption(option, value)
            _read(self._text, self._solver)
            result = self._solver.checkSat()
        except RuntimeError as error:
            require_memory(str(error))
            return f"the solver failed: {error}"
        if result.isUnsat():
            return ""
        if result.isSat():
            return "sat"
        reason = result.getUnknownExplanation().name.lower().replace("_", " ")
        require_memory(reason)
        return f"unknown: {reason}"

    def steps(self) -> tuple[AxiomInstance, ...]:
        """Return the instances that the proof uses, and all axioms without variables."""
        ground = (
            AxiomInstance(axiom.name, (), ()) for axiom in self._axioms if not any(quantified_names(axiom))
        )
        return (*ground, *_Reader(self._axioms, self._vocabulary).steps(self._solver.getProof()))


def _limiting(limits: SolverLimits) -> Mapping[str, str]:
    return {"rlimit": str(max(1, limits.resources // _PER_UNIT))}


def _read(text: str, solver: Expression) -> None:
    import cvc5

    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, _NAME)
    symbols = parser.getSymbolManager()
    while not (command := parser.nextCommand()).isNull():
        command.invoke(solver, symbols)


class _Reader:
    """Reads the instances that a proof uses; malformed terms are omitted, which is safe."""

    def __init__(self, axioms: Sequence[Equation], vocabulary: Vocabulary) -> None:
        self._axioms = {axiom.name: axiom for axiom in axioms}
        self._vocabulary = vocabulary
        self._terms: dict[Expression, Term | None] = {}

    def steps(self, proofs: Sequence[Expression]) -> tuple[AxiomInstance, ...]:
        """Return all distinct instances."""
        read = (self._step(proof) for proof in _instantiations(proofs))
        return tuple(dict.fromkeys(step for step in read if step is not None))

    def _step(self, proof: Expression) -> AxiomInstance | None:
        formula = proof.getChildren()[0].getResult()
        axiom = self._axioms.get(_quantifier_name(formula))
        if axiom is None:
            return None
        bound = [_symbol(variable) for variable in formula[0]]
        values = dict(zip(bound, proof.getArguments()[0], strict=True))
        attributes, tensors = quantified_names(axiom)
        named = [self._attribute(values.get(f"?{name}")) for name in attributes]
        terms = [self._term(values.get(f"{name}?")) for name in tensors]
        if any(value is None for value in (*named, *terms)):
            return None
        return AxiomInstance(
            axiom.name,
            tuple(zip(tensors, cast("list[Term]", terms), strict=True)),
            tuple(zip(attributes, cast("list[AttributeTerm]", named), strict=True)),
        )

    def _attribute(self, expression: Expression | None) -> AttributeTerm | None:
        return None if expression is None else self._vocabulary.constants.get(f"|{_symbol(expression)}|")

    def _term(self, expression: Expression | None) -> Term | None:
        if expression is None:
            return None
        if expression not in self._terms:
            self._terms[expression] = self._read(expression)
        return self._terms[expression]

    def _read(self, expression: Expression) -> Term | None:
        from cvc5 import Kind

        applied = expression.getKind() == Kind.APPLY_UF
        head, *arguments = list(expression) if applied else [expression]
        symbol = f"|{_symbol(head)}|"
        return self._vocabulary.term(symbol, arguments, self._attribute, self._term)


def _instantiations(proofs: Sequence[Expression]) -> Iterator[Expression]:
    """Yield the proof nodes in which a quantifier is instantiated, each once."""
    from cvc5 import ProofRule

    known: set[Expression] = set()
    waiting = list(proofs)
    while waiting:
        proof = waiting.pop()
        if proof not in known:
            known.add(proof)
            waiting.extend(proof.getChildren())
            if proof.getRule() == ProofRule.INSTANTIATE:
                yield proof


def _quantifier_name(formula: Expression) -> str:
    """Return the ``:qid`` of a quantified formula; empty if it has none."""
    from cvc5 import Kind

    annotations = formula[2] if len(list(formula)) > 2 else ()
    for annotation in annotations:
        if annotation.getKind() == Kind.INST_ATTRIBUTE:
            return str(annotation[1]).strip("|")
    return ""


def _symbol(expression: Expression) -> str:
    return str(expression.getSymbol()) if expression.hasSymbol() else ""


__all__ = ["NOT_INSTALLED", "PROVER", "Search", "ask", "confirms", "is_installed", "prover_version"]
