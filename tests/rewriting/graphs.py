"""Graphs for tests: written as terms, checked for being well-formed, evaluated over the prime field."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from superopt.domains import FieldArray, PrimeFieldDomain
from superopt.equations import parse_equation
from superopt.ir import (
    Application,
    ElementType,
    Graph,
    Input,
    Node,
    NodeId,
    TensorType,
    Term,
    Value,
    Variable,
    Weight,
    format_graph,
)
from superopt.ir.terms import subterms
from superopt.ops.opaque import Opaque
from superopt.ops.shape import Half, Split
from superopt.rewriting import (
    Rewrite,
    Substitution,
    apply_match,
    evaluate_graph,
    find_matches,
    infer_terms,
    substitutions_of,
)

FIELD = PrimeFieldDomain()

MERGE = (
    "(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), "
    "split1[axis=-1](matmul(x, concat[axis=-1](y, z))))"
)


def f32(*shape: int) -> TensorType:
    """A type of single-precision floats."""
    return TensorType(ElementType.FLOAT, shape)


def graph_of(text: str, **shapes: tuple[int, ...]) -> Graph:
    """The graph that returns the terms of ``text`` (``a`` or ``(a, b)``) for inputs of these shapes.

    Inputs whose names start with w are weights. Equal terms are one node; halves of one term are one split.
    """
    terms = parse_equation(f"{text} = {text}").left
    types = {name: f32(*shape) for name, shape in shapes.items()}
    typing = infer_terms(terms, types)
    editor = Graph.empty().edit()
    values: dict[Term, Value] = {}
    splits: dict[tuple[Value, Split], NodeId] = {}
    for name, type_ in types.items():
        label: Input | Weight = Weight(name, type_) if name.startswith("w") else Input(name, type_)
        values[Variable(name)] = editor.add(label).value
    for term in subterms(*terms):
        if not isinstance(term, Application):
            continue
        operator = typing.operators[term]
        inputs = [values[child] for child in term.inputs]
        if isinstance(operator, Half):
            extent = typing.types[term.inputs[0]].shape[operator.axis]
            split = Split(operator.axis, (operator.size, extent - operator.size))
            known = splits.get((inputs[0], split))
            node = editor.add(split, inputs).id if known is None else known
            splits[inputs[0], split] = node
            values[term] = Value(node, operator.port)
        else:
            values[term] = editor.add(operator, inputs).value
    editor.set_outputs(values[term] for term in terms)
    return editor.build()


def rule(text: str) -> Substitution:
    """The substitution that an equation is, read from left to right."""
    return substitutions_of(parse_equation(text), "rule")[0]


def arrays_of(graph: Graph, stack: int = 1) -> dict[NodeId, FieldArray]:
    """Random field elements for inputs and weights, the same for the same name and shape."""
    arrays: dict[NodeId, FieldArray] = {}
    for node in graph:
        if isinstance(node.operator, Input | Weight):
            type_ = node.types[0]
            assert isinstance(type_, TensorType)
            shape = tuple(size for size in type_.shape if isinstance(size, int))
            generator = np.random.default_rng(zlib.crc32(f"{node.operator.label}{shape}".encode()))
            arrays[node.id] = FIELD.random(generator, stack, shape)
    return arrays


def values_of(graph: Graph) -> list[tuple[tuple[int, ...], bytes]]:
    """Shapes and residues of what the graph returns."""
    results = evaluate_graph(graph, FIELD, arrays_of(graph))
    return [(array.residue.shape, array.residue.tobytes()) for array in results]


def check_well_formed(graph: Graph) -> None:
    """Every operand exists, every type is what its operator infers, there is no cycle, indices are right."""
    assert sorted(graph.order) == sorted(graph.nodes)
    for node in graph:
        assert node.id < graph.next_id
        assert all(source in graph.nodes for source in node.after)
        _check_types(graph, node)
    for value in graph.outputs:
        assert value.port < len(graph[value.node].types)
    assert all(node in graph.nodes for node in graph.inputs)
    fresh = Graph(graph.nodes, graph.inputs, graph.outputs, graph.next_id)
    names = {node.operator.name for node in graph}
    assert {n: graph.users(n) for n in graph.nodes} == {n: fresh.users(n) for n in graph.nodes}
    assert {n: graph.with_operator(n) for n in names} == {n: fresh.with_operator(n) for n in names}
    assert graph.awaited == fresh.awaited


def _check_types(graph: Graph, node: Node) -> None:
    for value in node.inputs:
        assert value.node in graph.nodes, f"{node.id} reads {value.node}, which is not there"
        assert value.port < len(graph[value.node].types)
    if not isinstance(node.operator, Opaque):
        assert node.types == node.operator.infer(*(graph.type_of(value) for value in node.inputs))


def by_label(graph: Graph) -> Mapping[str, NodeId]:
    """Inputs and weights by name."""
    return {n.operator.label: n.id for n in graph if isinstance(n.operator, Input | Weight)}


def applied(graph: Graph, text: str, index: int = 0) -> Rewrite | None:
    """What the rule does at its match of that number, checked to be what it says."""
    rewrite = apply_match(graph, list(find_matches(graph, rule(text)))[index])
    if rewrite is not None:
        check_well_formed(rewrite.graph)
        assert set(rewrite.removed) == set(graph.nodes) - set(rewrite.graph.nodes)
        assert set(rewrite.added) == set(rewrite.graph.nodes) - set(graph.nodes)
    return rewrite


def after(graph: Graph, text: str, index: int = 0) -> str:
    """The rewritten graph without its inputs; ``unchanged`` where the rule does not apply."""
    rewrite = applied(graph, text, index)
    if rewrite is None:
        return "unchanged"
    assert values_of(rewrite.graph) == values_of(graph)
    lines = format_graph(rewrite.graph).splitlines()
    return "\n".join(line for line in lines if " = input: " not in line and " = weight: " not in line)
