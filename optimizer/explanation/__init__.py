"""Explanation of a result: where time is spent, what each rule gained, why others were not used."""

from superopt.optimizer.explanation.explain import Explanation, Findings, explain

__all__ = ["Explanation", "Findings", "explain"]
