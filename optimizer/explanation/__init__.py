"""Explaining an optimization: what took the time, what each rule gained, why the others were not used."""

from superopt.optimizer.explanation.explain import Explanation, Findings, explain

__all__ = ["Explanation", "Findings", "explain"]
