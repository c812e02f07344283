"""Derivability: whether an equation follows from known equations in a bounded number of typed steps.

A step applies one known equation, in a direction that it claims (``=>`` from left to right, ``<=>`` and ``=``
both ways), anywhere in a graph whose sizes are those of one typing of the equation in question. It is a step
only if the matcher finds it, the conditions and declared types of the known equation hold at these sizes, and
the result has the type of what it replaces. An equation with both directions is derived in both.

From the target, a ``=>`` may also be applied from left to right where that makes the graph smaller: then both
sides lead to one term. The question is whether values are equal where both sides are defined; that a target
is defined wherever its source is (refinement) has to be known already.

Two searches answer, behind one ``Theory`` of known equations:

- ``derive`` takes one equation and counts steps, breadth first from both sides. It is complete for
  derivations of at most ``Bounds.steps`` steps through graphs of at most ``Bounds.slack`` nodes more than the
  larger side, as long as it expands at most ``Bounds.graphs`` graphs from either side. Spellings of one
  computation (``forms``) are one graph: any order of commutative operands, any nesting of concats and slices.
  ``follows`` asks with smaller bounds whether the equation is worth keeping beside those known.
- ``saturated`` takes many equations at once: equality saturation by egglog, which wins where thousands of
  terms share their parts. It reads every known equation as an equality, uses no value of an open attribute,
  is complete for what its iterations of all rules reach from both sides, and bounds the number of nodes of
  the e-graph instead of the size of a term.

A derivation shows equal values at the typings in question, given that the known equations hold. That none was
found means that it is not known whether the equation follows, never that it does not: no derivation, one
beyond a bound, a limit that was met and a side without a type all give the same answer.

Three modules ask other questions and keep their own engines; each says why: ``generator.prune.closure``,
``verifier.axiom_checks.redundancy`` and ``verifier.axiom_checks.consistency.saturation``.
"""

from superopt.rewriting.derivability.questions import Question, tree_size
from superopt.rewriting.derivability.saturated import Saturated
from superopt.rewriting.derivability.search import Bounds, Derivation
from superopt.rewriting.derivability.theory import SMALL, Theory

__all__ = ["SMALL", "Bounds", "Derivation", "Question", "Saturated", "Theory", "tree_size"]
