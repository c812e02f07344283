"""Which ONNX operators lifting understands, and when: read from the lifters themselves."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import cast

import onnx

from superopt.onnx_io.files.source import OLDEST_OPSET
from superopt.onnx_io.lifting.models import LIFTERS, SPECIAL
from superopt.onnx_io.lifting.site import Site
from superopt.onnx_io.sizes.shape_data import RULES, SIZE_READERS
from superopt.ops import OPERATORS
from superopt.ops.base import Operator

_ELLIPSIS = "…"
_NO_ARGUMENTS = ast.arguments([], [], None, [], [], None, [])
_READERS = {Site.constant_integers.__name__, Site.sizes.__name__}


@dataclass(frozen=True, slots=True)
class UnderstoodNode:
    """An ONNX operator with a lifter.

    ``since`` is the operator set from which on it is understood. ``operators`` are the names of
    those that may take its place, ``reasons`` why a node of it may stay opaque, beyond those that hold for
    every node.
    """

    op_type: str
    since: int
    operators: tuple[str, ...]
    reasons: tuple[str, ...]


def understood_nodes() -> tuple[UnderstoodNode, ...]:
    """All ONNX operators with a lifter, by name."""
    return tuple(_special(name) if name in SPECIAL else _generic(name) for name in sorted(LIFTERS))


def opaque_nodes() -> tuple[str, ...]:
    """The operators of the standard domain without a lifter that are not about sizes alone."""
    schemas = onnx.defs.get_all_schemas()
    names = {schema.name for schema in schemas if not schema.domain and not schema.deprecated}
    return tuple(sorted(names - LIFTERS.keys() - RULES.keys() - {*SIZE_READERS, "Constant"}))


def size_nodes() -> tuple[str, ...]:
    """The operators that are evaluated where they compute from sizes and constants alone."""
    return tuple(sorted({*SIZE_READERS, *RULES}))


def newest_operator_set() -> int:
    """The newest operator set of the installed ``onnx``."""
    return onnx.defs.onnx_opset_version()


def _generic(op_type: str) -> UnderstoodNode:
    for name, operator in OPERATORS.items():
        if operator.onnx is not None and operator.onnx.op_type == op_type:
            return UnderstoodNode(op_type, max(OLDEST_OPSET, operator.onnx.since), (name,), ())
    raise KeyError(op_type)


def _special(op_type: str) -> UnderstoodNode:
    functions = tuple(dict.fromkeys(_reached(_function(SPECIAL[op_type]))))
    operators = {name for function in functions for name in _operators(function)}
    reasons = dict.fromkeys(reason for function in functions for reason in _reasons(function))
    return UnderstoodNode(op_type, _first_set(op_type), tuple(sorted(operators)), tuple(reasons))


def _first_set(op_type: str) -> int:
    """The oldest operator set that is understood and has the operator."""
    return max(OLDEST_OPSET, _first_versions()[op_type])


@cache
def _first_versions() -> dict[str, int]:
    """The oldest operator set of each operator of the standard domain."""
    found: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found[schema.name] = min(schema.since_version, found.get(schema.name, schema.since_version))
    return found


def _function(lifter: Callable[[Site], object]) -> FunctionType:
    assert isinstance(lifter, FunctionType)
    return lifter


def _named(function: FunctionType) -> Iterator[object]:
    """The values of the global and enclosing variables that a function reads, in the order of reading."""
    enclosing = inspect.getclosurevars(function).nonlocals
    module = cast("dict[str, object]", function.__globals__)
    for node in ast.walk(_syntax(function)):
        if isinstance(node, ast.Name):
            yield enclosing.get(node.id, module.get(node.id))


def _reached(function: FunctionType) -> Iterator[FunctionType]:
    """The function and those of the lifting modules that it may call."""
    seen: set[FunctionType] = set()
    pending = [function]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        yield current
        called = [value for value in _named(current) if isinstance(value, FunctionType)]
        pending.extend(one for one in reversed(called) if _lifts(one))


def _lifts(function: FunctionType) -> bool:
    package = Site.__module__.rpartition(".")[0]
    return function.__module__.startswith(package) and function.__module__ != Site.__module__


def _operators(function: FunctionType) -> Iterator[str]:
    for value in _named(function):
        kind = value if isinstance(value, type) else type(value)
        if issubclass(kind, Operator) and kind in OPERATORS.values():
            yield kind.name


def _reasons(function: FunctionType) -> Iterator[str]:
    """The messages with which a function refuses a node, a "…" for what depends on the node."""
    for node in ast.walk(_syntax(function)):
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name("NotLiftedError"), args=[message])):
                yield _text(message)
            case ast.Call(func=ast.Attribute(attr=reader), args=[_, ast.Constant(str(what))]) if (
                reader in _READERS
            ):
                yield f"{what}: computed at run time"
            case ast.Call(func=ast.Attribute(attr="require_unused"), args=[ast.Constant(int(output))]):
                yield f"output {output} is used"
            case _:
                pass


@cache
def _syntax(function: FunctionType) -> ast.AST:
    """The function without its annotations."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.args, node.returns = _NO_ARGUMENTS, None
    return tree


def _text(message: ast.expr) -> str:
    match message:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(_text, parts))
        case _:
            return _ELLIPSIS
