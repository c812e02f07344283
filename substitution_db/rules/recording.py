"""Verdicts stored as soon as they are there, so that what is stored does not depend on who was faster.

Rules are judged side by side, and a verdict that took long may be on the same general form as one that came
earlier. What is stored in the end is what storing them in the order of the rules would give: a form is stated
as the first of those rules states it, and the proof from the last of them is the latest.
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
    """A verdict that was stored, from the rule of this number."""

    number: int
    proof: Proof


class Recording:
    """Stores the verdicts on forms of rules. ``known`` are the rules that are there before the first."""

    def __init__(self, rules: RuleRepository, known: Iterable[Rule]) -> None:
        self._rules = rules
        self._known = {rule.id: rule for rule in known}
        self._stored: defaultdict[str, list[_Stored]] = defaultdict(list)

    def store(self, number: int, rule: Rule, equation: Equation, proof: Proof) -> None:
        """Stores the verdict on a form of a rule, the ``number``-th that is judged."""
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
        """A general form, stated as it is where it is a rule already."""
        known = self._known.get(form)
        if known is None:
            return general
        forms = tuple(map(parse_equation, known.generalizations))
        return CandidateRule(parse_equation(known.equation), known.provenance, forms)


__all__ = ["Recording"]
