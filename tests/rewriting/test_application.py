"""Applying: graphs before and after as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent

import pytest

from tests.rewriting.graphs import MERGE, after, graph_of

S = (2, 2)
FOUR: Mapping[str, tuple[int, ...]] = dict.fromkeys("abcd", S)


@dataclass(frozen=True)
class Case:
    """A term, a rule, and the graph after the rule was applied at its match of number ``index``."""

    name: str
    term: str
    rule: str
    after: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: FOUR)
    index: int = 0


CASES = (
    Case(
        "a product is associated",
        "matmul(a, matmul(b, c))",
        "matmul(x, matmul(y, z)) => matmul(matmul(x, y), z)",
        """
        %5 = matmul(a, b): f32[2, 4]
        %6 = matmul(%5, c): f32[2, 5]
        return %6
        """,
        shapes={"a": (2, 3), "b": (3, 4), "c": (4, 5)},
    ),
    Case(
        "what another node reads stays",
        "(relu(relu(a)), transpose(relu(a)))",
        "relu(relu(x)) => relu(x)",
        """
        %4 = relu(a): f32[2, 2]
        %6 = transpose(%4): f32[2, 2]
        return %4, %6
        """,
    ),
    Case(
        "what is returned stays",
        "(transpose(transpose(a)), transpose(a))",
        "transpose(transpose(x)) => x",
        """
        %4 = transpose(a): f32[2, 2]
        return a, %4
        """,
    ),
    Case(
        "what the result stands for stays, though only the removed nodes read it",
        "relu(transpose(transpose(sigmoid(a))))",
        "transpose(transpose(x)) => x",
        """
        %4 = sigmoid(a): f32[2, 2]
        %7 = relu(%4): f32[2, 2]
        return %7
        """,
    ),
    Case(
        "an existing node is used again",
        "(matmul(a, matmul(b, c)), matmul(a, b))",
        "matmul(x, matmul(y, z)) => matmul(matmul(x, y), z)",
        """
        %6 = matmul(a, b): f32[2, 2]
        %7 = matmul(%6, c): f32[2, 2]
        return %7, %6
        """,
    ),
    Case(
        "two products become one and a split",
        "(matmul(a, b), matmul(a, c))",
        MERGE,
        """
        %5 = concat[axis=-1](b, c): f32[3, 9]
        %6 = matmul(a, %5): f32[2, 9]
        %7 = split[axis=-1, sizes=(4, 5)](%6): f32[2, 4], f32[2, 5]
        return %7.0, %7.1
        """,
        shapes={"a": (2, 3), "b": (3, 4), "c": (3, 5)},
    ),
    Case(
        "a long concat is taken apart and comes back long",
        "concat[axis=1](relu(a), relu(b), relu(c), d)",
        "concat[axis=k](relu(x), relu(y)) => relu(concat[axis=k](x, y))",
        """
        %4 = relu(a): f32[2, 2]
        %8 = concat[axis=1](b, c): f32[2, 4]
        %9 = relu(%8): f32[2, 4]
        %10 = concat[axis=1](%4, %9, d): f32[2, 8]
        return %10
        """,
        index=1,
    ),
    Case(
        "a concat that is what it was",
        "concat[axis=0](a, b, c)",
        "concat[axis=0](x, y) => concat[axis=0](x, y)",
        """
        unchanged
        """,
    ),
    Case(
        "nested concats become one",
        "concat[axis=0](concat[axis=0](a, b), c)",
        "concat[axis=k](concat[axis=k](x, y), z) => concat[axis=k](x, concat[axis=k](y, z))",
        """
        %6 = concat[axis=0](a, b, c): f32[6, 2]
        return %6
        """,
    ),
    Case(
        "association of what is long already is nothing",
        "concat[axis=0](a, b, c)",
        "concat[axis=k](concat[axis=k](x, y), z) => concat[axis=k](x, concat[axis=k](y, z))",
        """
        unchanged
        """,
    ),
    Case(
        "a window of a concat is replaced",
        "concat[axis=1](d, split0[axis=1, size=1](a), split1[axis=1, size=1](a), c)",
        "concat[axis=k](split0[axis=k](x), split1[axis=k](x)) => x",
        """
        %6 = concat[axis=1](d, a, c): f32[2, 6]
        return %6
        """,
    ),
    Case(
        "an operand that is a bundle becomes a concat where it is needed",
        "concat[axis=0](a, b, c)",
        "concat[axis=0](x, y) => transpose(concat[axis=-1](transpose(x), transpose(y)))",
        """
        %5 = concat[axis=0](a, b): f32[4, 2]
        %6 = transpose(%5): f32[2, 4]
        %7 = transpose(c): f32[2, 2]
        %8 = concat[axis=-1](%6, %7): f32[2, 6]
        %9 = transpose(%8): f32[6, 2]
        return %9
        """,
        index=1,
    ),
    Case(
        "the source may be a part of the target",
        "(relu(a), transpose(relu(a)))",
        "relu(x) => relu(relu(x))",
        """
        %4 = relu(a): f32[2, 2]
        %6 = relu(%4): f32[2, 2]
        %5 = transpose(%6): f32[2, 2]
        return %6, %5
        """,
    ),
    Case(
        "no cycle through nodes that are used again",
        "relu(relu(relu(a)))",
        "relu(x) => relu(relu(relu(x)))",
        """
        unchanged
        """,
    ),
    Case(
        "commuting back is a change",
        "add(a, b)",
        "add(x, y) => add(y, x)",
        """
        %5 = add(b, a): f32[2, 2]
        return %5
        """,
    ),
    Case(
        "a constant gets its shape from the place",
        "relu(a)",
        "relu(x) => mul(relu(x), ones())",
        """
        %1 = relu(a): f32[2, 5]
        %2 = ones[shape=(2, 5)](): f32[2, 5]
        %3 = mul(%1, %2): f32[2, 5]
        return %3
        """,
        shapes={"a": (2, 5)},
    ),
    Case(
        "a cut of the source is a cut of the target",
        "global_avgpool(split0[axis=2, size=2](relu(a)))",
        "global_avgpool(split0[axis=2](relu(x))) => global_avgpool(relu(split0[axis=2](relu(x))))",
        """
        %1 = relu(a): f32[1, 2, 5, 5]
        %2 = split[axis=2, sizes=(2, 3)](%1): f32[1, 2, 2, 5], f32[1, 2, 3, 5]
        %4 = relu(%2.0): f32[1, 2, 2, 5]
        %5 = global_avgpool(%4): f32[1, 2, 1, 1]
        return %5
        """,
        shapes={"a": (1, 2, 5, 5)},
    ),
    Case(
        "a cut that nothing determines",
        "global_avgpool(split0[axis=2, size=2](relu(a)))",
        "global_avgpool(split0[axis=2](relu(x))) => global_avgpool(relu(split0[axis=2](x)))",
        """
        unchanged
        """,
        shapes={"a": (1, 2, 5, 5)},
    ),
    Case(
        "an ill-typed target",
        "matmul(a, b)",
        "matmul(x, y) => matmul(y, x)",
        """
        unchanged
        """,
        shapes={"a": (2, 3), "b": (3, 4)},
    ),
    Case(
        "a target of another shape",
        "relu(transpose(a))",
        "transpose(x) => x",
        """
        unchanged
        """,
        shapes={"a": (2, 3)},
    ),
    Case(
        "a condition that does not hold",
        "relu(relu(a))",
        "relu(relu(x)) => relu(x) where rank(x) = 3",
        """
        unchanged
        """,
    ),
    Case(
        "a declared rank that is another",
        "relu(relu(a))",
        "relu(relu(x: f32[n, c, h])) => relu(x)",
        """
        unchanged
        """,
    ),
    Case(
        "a declared type that fits",
        "relu(relu(a))",
        "relu(relu(x: f32[n, n])) => relu(x)",
        """
        %4 = relu(a): f32[2, 2]
        return %4
        """,
    ),
    Case(
        "a constant of the size that the types determine",
        "conv(conv(a, identity_kernel[kernel=1, channels=4]), b)",
        "conv(conv(x, identity_kernel[kernel=1]), y) => conv(x, y)",
        """
        %5 = conv(a, b): f32[1, 2, 3, 3]
        return %5
        """,
        shapes={"a": (1, 4, 3, 3), "b": (2, 2, 1, 1)},
    ),
    Case(
        "a constant of another size, which makes a grouped convolution of the source",
        "conv(conv(a, identity_kernel[kernel=1, channels=2]), b)",
        "conv(conv(x, identity_kernel[kernel=1]), y) => conv(x, y)",
        """
        unchanged
        """,
        shapes={"a": (1, 4, 3, 3), "b": (2, 2, 1, 1)},
    ),
    Case(
        "a term of both sides is of one type",
        "broadcast[shape=(2, 2, 2)](broadcast[shape=(2, 2)](a))",
        "broadcast(broadcast(x)) => broadcast(x)",
        """
        unchanged
        """,
        shapes={"a": (2,)},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_before_and_after(case: Case) -> None:
    graph = graph_of(case.term, **case.shapes)
    assert after(graph, case.rule, case.index) == dedent(case.after).strip()
