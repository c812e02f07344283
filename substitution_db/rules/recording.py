"""Recording of verdicts as they arrive, with a result independent of their order of arrival.

Rules are verified in parallel, and several rules may lead to the same general form. The final state equals
that of recording in the order of the rules: a form is stated as by the first such rule, and its latest proof
comes from the last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from superopt.equations import parse_equation, rule_id
from superopt.ir.terms import Equation
from superopt.substitution_db.rules.repository import CandidateRule, RuleRepository
from superopt.substitution_db.store.records import Proof, Rule


@dataclass(frozen=True, slots=True)
class _Stored:
    """A recorded verdict and the number of its rule."""

    number: int
    proof: Proof


class Recording:
    """Records verdicts on forms of rules. ``known`` are the ids of rules stored beforehand."""

    def __init__(self, rules: RuleRepository, known: Iterable[Rule]) -> None:
        self._rules = rules
        self._known = {rule.id: rule for rule in known}
        self._stored: defaultdict[str, list[_Stored]] = defaultdict(list)

    def store(self, number: int, rule: Rule, equation: Equation, proof: Proof) -> None:
        """Records the verdict on a form of the ``number``-th rule."""
        form = rule_id(equation)
        before = self._stored[form]
        if form == rule.id:
            self._rules.record_verdict(form, proof)
        else:
            stated = self._stated(form, CandidateRule(equation, rule.provenance))
            self._rules.record_general_form(rule.id, stated, proof)
            if form not in self._known and before and number < min(stored.number for stored in before):
                self._rules.restate(form, stated)
        for stored in sorted(before, key=lambda stored: stored.number):
            if stored.number > number:
                self._rules.record_verdict(form, stored.proof)
        before.append(_Stored(number, proof))

    def _stated(self, form: str, general: CandidateRule) -> CandidateRule:
        """A general form, with the variable names of the stored rule if it is one already."""
        known = self._known.get(form)
        if known is None:
            return general
        forms = tuple(map(parse_equation, known.generalizations))
        return CandidateRule(parse_equation(known.equation), known.provenance, forms)


__all__ = ["Recording"]
