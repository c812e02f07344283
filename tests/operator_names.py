"""Where production code outside ``superopt/ops`` names operators: run by ``make check`` and by a test.

An operator is named by an import of its class, or by a text that is its registered name where it stands for
an operator: compared with something that is called operator or name; in a pattern of such a match or of an
``Application``; given to a function that takes the name of an operator; used as a key of what is kept by
operator; in a collection of texts most of which are names of operators; returned for an operator. A text in
a docstring, a message, a label, an option or a header is none of these. Whoever needs to know something of an
operator reads a trait of its class (``superopt.ops.base.Operator``); what cannot is an exception below.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from superopt.ops import OPERATORS

ROOT = Path(__file__).parents[1]
PACKAGES = ("superopt", "generator", "verifier", "axioms", "optimizer", "server", "substitution_db")
REGISTRY = "superopt/ops/"

_CLASSES = {operator.__name__: name for name, operator in OPERATORS.items()}
_SPEAKING = ("operator", "operators", "name", "names", "OPERATORS")
_TAKING_A_NAME = frozenset(
    (
        *("application", "Application", "with_operator", "operator_from_attributes", "attribute_names"),
        *("attribute_defaults", "number_of", "traits"),
    )
)
_WORDS = frozenset(
    (
        *("batch", "broadcast", "combine", "enlarge", "full", "identity", "ones", "partition", "pipeline"),
        *("power", "reduce", "replicate", "scale", "split"),
    )
)
"""Names that are also ordinary words: alone in a collection they say nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Occurrence:
    """An operator that is named in a module."""

    module: str
    line: int
    operator: str


@dataclass(frozen=True, slots=True)
class Exemption:
    """Why a module, or every module of a folder, may name operators: those given, any where none is."""

    reason: str
    operators: frozenset[str] = frozenset()


_LIFTS = "tells which operators an ONNX node is lifted to"
_EMITS = "tells which ONNX nodes an operator is lowered to"
_WRITES = "writes formulas in the operators of the algebra"
EXEMPTIONS: Mapping[str, Exemption] = {
    "superopt/zoo/networks/graph_networks.py": Exemption("how ONNX's ScatterND reduces", frozenset({"add"})),
    "generator/bilinear/rules.py": Exemption(
        "states what an algorithm computes, and what computes it",
        frozenset(
            ("bilinear_conv", "bilinear_matmul", "conv", "filter_transform", "matmul", "product_transform")
        ),
    ),
    "optimizer/canonical/rows.py": Exemption(
        "writes what stands between a sequence and an image of one row", frozenset({"broadcast", "reshape"})
    ),
    "optimizer/canonical/transposed.py": Exemption(
        "moves transposes, and what repeats numbers beside them",
        frozenset({"broadcast", "reshape", "transpose"}),
    ),
    "optimizer/cost/measuring/measurer.py": Exemption(
        "a reshape of an image is what it times to price leaving the runtime's layout", frozenset({"reshape"})
    ),
    "optimizer/cost/roofline.py": Exemption(
        "a product and a sum are what it times to know how fast a device is", frozenset({"add", "matmul"})
    ),
    "optimizer/parallel/strategies/cutting.py": Exemption(
        "cuts and joins gradients as a strategy of synchronisation says",
        frozenset({"concat", "reshape", "split"}),
    ),
    "optimizer/training/builder.py": Exemption(_WRITES),
    "optimizer/training/gradients/": Exemption(_WRITES),
    "optimizer/training/losses.py": Exemption(_WRITES),
    "optimizer/training/optimizers.py": Exemption(_WRITES),
    "optimizer/training/precision/casts.py": Exemption(_WRITES),
    "optimizer/training/precision/errors.py": Exemption(_WRITES),
    "optimizer/training/precision/scaling.py": Exemption(_WRITES),
    "optimizer/training/precision/sensitivity.py": Exemption(
        "casts are what it says where to write", frozenset({"cast"})
    ),
    "optimizer/training/precision/stored.py": Exemption(_WRITES),
    "optimizer/training/schedules.py": Exemption(_WRITES),
    "optimizer/training/step.py": Exemption(_WRITES),
    "optimizer/training/synchronisation.py": Exemption(_WRITES),
    "optimizer/training/updates.py": Exemption(_WRITES),
    "server/worker/device_probe.py": Exemption(
        "the smallest model there is shows whether a device runs any", frozenset({"relu"})
    ),
    "server/options.py": Exemption(
        "keywords of JSON Schema, of the same names", frozenset({"maximum", "minimum"})
    ),
    "superopt/journeys/library/peers/translation.py": Exemption(
        "tells which operators those of TASO's and FlexFlow's rule files are"
    ),
    "superopt/domains/floats.py": Exemption(
        "functions of a number domain, below the registry, of the same names",
        frozenset({"cos", "erf", "log", "power", "sin"}),
    ),
    "superopt/domains/symbolic.py": Exemption(
        "functions of a number domain, below the registry, of the same names",
        frozenset({"cos", "erf", "exp", "log", "sin", "sqrt"}),
    ),
    "superopt/onnx_io/emit/emission.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/bilinear.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/bilinear_form.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/bilinear_phases.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/bilinear_product.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/conv_data_gradient.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/conv_weight_gradient.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/gradients.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/elementwise.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/layers.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/reductions.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/selection.py": Exemption(_EMITS),
    "superopt/onnx_io/emit/shape.py": Exemption(_EMITS),
    "superopt/onnx_io/lifting/composed.py": Exemption(_LIFTS),
    "superopt/onnx_io/lifting/cuts.py": Exemption(_LIFTS),
    "superopt/onnx_io/lifting/einsum.py": Exemption(_LIFTS),
    "superopt/onnx_io/lifting/elementwise.py": Exemption(_LIFTS),
    "superopt/onnx_io/lifting/fourier.py": Exemption(_LIFTS),
    "superopt/onnx_io/lifting/layers.py": Exemption(_LIFTS),
    "superopt/onnx_io/lifting/reductions.py": Exemption(_LIFTS),
    "superopt/onnx_io/lifting/resizing.py": Exemption(_LIFTS),
    "superopt/onnx_io/lifting/scatter.py": Exemption(_LIFTS),
    "superopt/onnx_io/lifting/selection.py": Exemption(_LIFTS),
    "superopt/onnx_io/lifting/shape.py": Exemption(_LIFTS),
    "superopt/onnx_io/lifting/volumes.py": Exemption(_LIFTS),
    "verifier/adjoints/dual.py": Exemption(
        "the derivative of a power is one, with a calculated exponent", frozenset({"power"})
    ),
}


def production_modules() -> Iterator[Path]:
    """Every module of the packages outside of the registry."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.relative_to(ROOT).as_posix().startswith(REGISTRY):
                yield path


def occurrences_in(module: str, source: str) -> tuple[Occurrence, ...]:
    """The operators that the source of a module names."""
    return tuple(sorted(set(_Reading(module, ast.parse(source)).found())))


def all_occurrences() -> tuple[Occurrence, ...]:
    """Those of all production modules."""
    return tuple(
        occurrence
        for path in production_modules()
        for occurrence in occurrences_in(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    )


def complaints(
    occurrences: Iterable[Occurrence], exemptions: Mapping[str, Exemption] = EXEMPTIONS
) -> list[str]:
    """A line for every occurrence that is not exempt, and for every exemption that is not needed."""
    unused = {place: set(exemption.operators) or {"any"} for place, exemption in exemptions.items()}
    lines: list[str] = []
    for found in occurrences:
        place = next((place for place in exemptions if _covers(place, found.module)), None)
        allowed = frozenset[str]() if place is None else exemptions[place].operators or {found.operator}
        if place is None or found.operator not in allowed:
            lines.append(f"{found.module}:{found.line}: {found.operator} is named; read a trait of it")
        else:
            unused[place] -= {found.operator, "any"}
    lines += [
        f"{place}: exempt for {', '.join(sorted(names))}, which it does not name"
        for place, names in unused.items()
        if names
    ]
    return lines


def _covers(place: str, module: str) -> bool:
    return module.startswith(place) if place.endswith("/") else module == place


class _Reading:
    """The syntax tree of one module, with parents and the constants that it defines."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self._module = module
        self._tree = tree
        self._parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._constants = dict(_single_constants(tree))
        self._families = frozenset(_imported_modules(tree))

    def found(self) -> Iterator[Occurrence]:
        for node in ast.walk(self._tree):
            for operator in self._named(node):
                yield Occurrence(self._module, getattr(node, "lineno", 0), operator)

    def _named(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.ImportFrom(module=str() as module, names=names) if module.startswith("superopt.ops"):
                yield from (_CLASSES[alias.name] for alias in names if alias.name in _CLASSES)
            case ast.Attribute(value=ast.Name(id=family), attr=name) if family in self._families:
                yield from (_CLASSES[name],) if name in _CLASSES else ()
            case ast.Constant(value=str() as text) if text in OPERATORS and self._stands_for_operator(node):
                yield text
            case ast.Name(id=name, ctx=ast.Load()) if name in self._constants:
                if self._stands_for_operator(node):
                    yield self._constants[name]
            case _:
                pass

    def _stands_for_operator(self, node: ast.expr) -> bool:
        """Whether the place where a text stands is one of an operator's name."""
        child: ast.AST = node
        parent = self._parents[child]
        while True:
            match parent:
                case ast.Tuple() | ast.List() | ast.Set():
                    if _is_collection_of_names(parent.elts) and not self._is_export_list(parent):
                        return True
                case ast.Dict(keys=keys, values=values):
                    texts = values if child in values else keys
                    return _is_collection_of_names([text for text in texts if text is not None])
                case ast.Compare():
                    others = (each for each in (parent.left, *parent.comparators) if each is not child)
                    return any(map(_speaks_of_operators, others))
                case ast.MatchClass(cls=ast.Name(id="Application")):
                    return True
                case ast.match_case():
                    match = self._parents[parent]
                    return isinstance(match, ast.Match) and _speaks_of_operators(match.subject)
                case ast.Call():
                    return child is not parent.func and _takes_operators(parent, child)
                case ast.keyword(arg="operator"):
                    return True
                case ast.Subscript(value=value):
                    return child is not value and _speaks_of_operators(value)
                case ast.IfExp():
                    if child is not parent.test and _speaks_of_operators(parent.test):
                        return True
                case ast.MatchValue() | ast.MatchOr() | ast.MatchSequence() | ast.Starred() | ast.BinOp():
                    pass
                case _:
                    return False
            child, parent = parent, self._parents[parent]

    def _is_export_list(self, node: ast.AST) -> bool:
        match self._parents[node]:
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                return True
            case _:
                return False


def _is_collection_of_names(elements: Iterable[ast.expr]) -> bool:
    """Texts, most of them names of operators; a single one must not be an ordinary word."""
    elements = [element for element in elements if not isinstance(element, ast.Starred)]
    texts = [e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)]
    names = [text for text in texts if text in OPERATORS]
    return (
        len(texts) == len(elements)
        and 2 * len(names) > len(texts)
        and (len(names) > 1 or not _WORDS.issuperset(names))
    )


def _speaks_of_operators(node: ast.expr) -> bool:
    """Whether what an expression gives is called an operator or a name, by the last word for it."""
    return any(word.strip("_").rpartition("_")[2] in _SPEAKING for word in _words(node))


def _words(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word):
            yield word
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            yield from _words(inner)
        case ast.SetComp(elt=inner) | ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner):
            yield from _words(inner)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.BoolOp(values=parts):
            yield from (word for part in parts for word in _words(part))
        case ast.Compare(left=left, comparators=others):
            yield from (word for part in (left, *others) for word in _words(part))
        case ast.BinOp(left=left, right=right):
            yield from (*_words(left), *_words(right))
        case _:
            pass


def _takes_operators(call: ast.Call, argument: ast.AST) -> bool:
    """Whether a function takes the name of an operator first, or looks one up in what is kept by operator."""
    if argument not in call.args:
        return False
    match call.func:
        case ast.Name(id=name):
            return name in _TAKING_A_NAME and argument is call.args[0]
        case ast.Attribute(value=value, attr=name):
            return (name in _TAKING_A_NAME and argument is call.args[0]) or _speaks_of_operators(value)
        case _:
            return False


def _single_constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text)):
                if text in OPERATORS:
                    yield name, text
            case _:
                pass


def _imported_modules(tree: ast.Module) -> Iterator[str]:
    """The names by which a module knows the families of the registry."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="superopt.ops", names=names):
                yield from (alias.asname or alias.name for alias in names)
            case ast.Import(names=names):
                yield from (alias.asname for alias in names if alias.asname and "superopt.ops" in alias.name)
            case _:
                pass


def main() -> int:
    """Prints the exceptions with their reasons, then what is wrong; 1 where something is."""
    occurrences = all_occurrences()
    for place, exemption in EXEMPTIONS.items():
        count = sum(_covers(place, found.module) for found in occurrences)
        sys.stdout.write(f"{place}: {count}, {exemption.reason}\n")
    lines = complaints(occurrences)
    sys.stderr.writelines(f"{line}\n" for line in lines)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
