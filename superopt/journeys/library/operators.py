"""Generator of docs/operators.md: ``python -m superopt.journeys.library.operators``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from superopt.axioms import AxiomSet, load_axioms
from superopt.onnx_io.files.source import OLDEST_OPSET
from superopt.onnx_io.lifting.composed import FOR_GRADIENTS
from superopt.onnx_io.lifting.models import LIFTERS
from superopt.onnx_io.lifting.understood import (
    newest_operator_set,
    opaque_nodes,
    size_nodes,
    understood_nodes,
)
from superopt.ops import OPERATORS
from superopt.ops.base import Operator, attribute_defaults, attribute_names
from superopt.ops.elementwise.selection import Predicate
from superopt.verifier.adjoints import missing_adjoints, why_no_adjoint

HEAD = """\
# Supported operators

`python -m superopt.journeys.library.operators > docs/operators.md` writes this page from the operator
registry, the axioms and the code that reads models; a test compares it with them.

superopt runs on any model that ONNX Runtime loads. A node is *understood* if an operator of the algebra
describes it: rules can match it, its sizes are known. Any other node is *opaque*: it stays exactly as it is,
is measured with the rest, and rules apply around it. `superopt inspect MODEL` lists the opaque nodes of a
model with the reason for each.

## ONNX operators that are understood

- *from*: the first operator set in which it is understood, from {oldest} on; `--opset` converts a model.
- *operators*: those that can take its place in the graph, depending on operands and attributes.
- *opaque where*: the reasons that `inspect` gives; `…` stands for a name or a number of the node.

`superopt train-graph` takes gradients through all of them but {without}.
It also takes them through {kernels},
and through `Gather` along any axis. Elsewhere these stay opaque: ONNX Runtime runs each of them faster than
the operators that it is made of (`python -m benchmarks composed`).

Nodes that it runs slower than the operators that they are made of are written as those: `Celu`, `Einsum`,
`GroupNormalization`, `ReduceLogSum`, `ReduceLogSumExp`, most of `ReduceL1`, `ReduceL2` and `ReduceSumSquare`,
`LogSoftmax` along an axis before the last two, and `MatMul` by a vector. `ReduceMean` and `ReduceSum` along
the channels of one image, or of a batch of open size, are written as products with a row. A `Transpose` that
moves more than one axis is written as two that move one each, and a `DepthToSpace` with two such, unless
the tensor is small.

These reasons hold for every operator and are not repeated: an operand is missing, has no known type, or is
not a tensor; elements are of a type for which the operator has no meaning in the algebra (rules are about
real numbers; integers and truth values can be moved, joined, cut, chosen, compared, added and multiplied);
the node calls a function of the model, or is of another domain than ONNX's own.
"""

SIZES = """\
## Operators on sizes

These are evaluated before the model is read if they compute from known sizes and constants, and followed
symbolically if sizes are open ([how](understanding.md)); otherwise the table above decides, or they are
opaque:
"""

OPAQUE = """\
## Operators that stay opaque

The bodies of `If`, `Loop` and `Scan` are optimised as models of their own; the nodes themselves stay. In
operator set {version}, nodes of the following operators are kept unchanged, as are all nodes of other
domains (`ai.onnx.ml`, `com.microsoft`):
"""

ALGEBRA = """\
## Operators of equations

The names in [equations](equations.md), their attributes with defaults, the number of axioms about each, and
whether there are [adjoint statements](equations.md#adjoint-statements) for its operands. `superopt library
list --operator NAME` lists the rules about one, `superopt axioms list` the axioms. Those about divided
tensors are used for [plans](parallel.md) only, those whose names contain *gradient* for training.
"""


def operators_page() -> str:
    """The page as Markdown."""
    axioms = load_axioms()
    gradients = _gradients(axioms)
    sections = (
        (_head(gradients), _understood_rows()),
        (SIZES, [_listed(size_nodes())]),
        (OPAQUE.format(version=newest_operator_set()), [_listed(opaque_nodes())]),
        (ALGEBRA, _operator_rows(axioms, gradients)),
    )
    return "\n".join(line for head, lines in sections for line in (head, *lines, ""))[:-1]


def _head(gradients: Mapping[str, str]) -> str:
    kernels = sorted(FOR_GRADIENTS.keys() - LIFTERS.keys())
    return HEAD.format(
        oldest=OLDEST_OPSET, without=_listed(_without_gradient(gradients)), kernels=_listed(kernels)
    )


def _gradients(axioms: AxiomSet) -> Mapping[str, str]:
    """What is known of the gradient of each operator: yes, none (there is nothing to differentiate) or no."""
    missing = {one.operator for one in missing_adjoints(axioms)}
    return {
        name: "none" if why_no_adjoint(operator) else ("no" if name in missing else "yes")
        for name, operator in OPERATORS.items()
    }


def _understood_rows() -> Iterator[str]:
    yield "| ONNX operator | from | operators | opaque where |"
    yield "|---|---|---|---|"
    for node in understood_nodes():
        yield f"| {node.op_type} | {node.since} | {_listed(node.operators)} | {'; '.join(node.reasons)} |"


def _without_gradient(gradients: Mapping[str, str]) -> tuple[str, ...]:
    """The ONNX operators that become an operator without a gradient, or a predicate."""
    return tuple(
        node.op_type
        for node in understood_nodes()
        if any(gradients[name] == "no" or issubclass(OPERATORS[name], Predicate) for name in node.operators)
    )


def _operator_rows(axioms: AxiomSet, gradients: Mapping[str, str]) -> Iterator[str]:
    counts = Counter(
        name for axiom in axioms.equations for name in {term.operator for term in axiom.applications}
    )
    yield "| operator | inputs | attributes | axioms | adjoints | what |"
    yield "|---|---|---|---|---|---|"
    in_equations = {name: one for name, one in OPERATORS.items() if one.inputs or one.constant}
    for name, operator in sorted(in_equations.items()):
        facts = f"{operator.inputs} | {_listed(_attributes(name))} | {counts[name]} | {gradients[name]}"
        yield f"| `{name}` | {facts} | {_what(operator)} |"


def _attributes(name: str) -> Iterator[str]:
    """The attributes, each with its default if it has one."""
    defaults = attribute_defaults(name)
    for attribute in attribute_names(name):
        written = str(defaults.get(attribute, "")).replace(" ", "")
        yield f"{attribute}={written}" if written else attribute


def _what(operator: type[Operator]) -> str:
    """The first sentence of its documentation, on one line."""
    text = " ".join((operator.__doc__ or "").split("\n\n")[0].split())
    return text.replace("|", "\\|").replace("``", "`")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(operators_page())
