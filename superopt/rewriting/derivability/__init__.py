"""Derivability: whether an equation follows from known equations in a bounded number of typed steps.

A step applies one known equation, in a direction that it claims (``=>`` from left to right, ``<=>`` and ``=``
both ways), anywhere in a graph whose sizes are those of one typing of the equation in question. It is a step
only if the matcher finds it, the conditions and declared types of the known equation hold at these sizes, and
the result has the type of what it replaces. An equation with both directions is derived in both.

Two searches answer:

- ``Theory.derive`` takes few questions and counts steps: breadth-first search from both sides, complete for
  derivations of at most ``Bounds.steps`` steps through graphs of at most ``Bounds.slack`` nodes more than the
  larger side, as long as it expands at most ``Bounds.graphs`` graphs from either side. Spellings of one
  computation (``forms``) are one graph: the order of commuting operands, the nesting of concats and slices.
- ``Theory.saturated`` takes many questions at once: equality saturation by egglog. It reads every known
  equation as an equality, is complete for what its iterations of all rules reach from both sides, and has no
  bound on the size of a graph other than ``SaturationLimits.nodes``.

A derivation is proof at the typings asked about, given that the known equations hold. That nothing was found
means that it is not known whether the equation follows, never that it does not: a step outside the bounds, a
limit that was met or a typing that failed look the same.

Three modules ask other questions and have their own engines: ``generator.prune.closure`` (which of millions of
enumerated terms are connected, without building a graph of any), ``verifier.axiom_checks.redundancy`` (a proof
for all sizes with a certificate) and ``verifier.axiom_checks.consistency`` (any false consequence, no target
given, with the instances that lead there).
"""

from superopt.rewriting.derivability.questions import Question, tree_size
from superopt.rewriting.derivability.saturated import Saturated
from superopt.rewriting.derivability.search import Bounds, Derivation
from superopt.rewriting.derivability.theory import SMALL, Theory

__all__ = ["SMALL", "Bounds", "Derivation", "Question", "Saturated", "Theory", "tree_size"]
