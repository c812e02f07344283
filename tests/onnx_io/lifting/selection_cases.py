"""Choices, comparisons, logic and casts: their graphs and how they are written."""

from __future__ import annotations

from onnx import TensorProto

from tests.onnx_io.kit import node, tensor, value
from tests.onnx_io.lifting.case import Case

SELECTION = (
    Case(
        "a choice by a given mask",
        [node("Where", "m x low", "y")],
        [value("m", ["n", 1, 4], TensorProto.BOOL), value("x", ["n", 3, 4])],
        lifted="""
            m = input: bool[n, 1, 4]
            x = input: f32[n, 3, 4]
            low = weight: f32[]
            %3 = broadcast[shape=(n, 3, 4)](m): bool[n, 3, 4]
            %4 = broadcast[shape=(n, 3, 4)](low): f32[n, 3, 4]
            %5 = select(%3, x, %4): f32[n, 3, 4]
            return %5
        """,
        written="""
            y = Where(m, x, low)
        """,
        weights=[tensor("low", -1e4)],
    ),
    Case(
        "comparisons and logic",
        [
            node("Less", "x z", "a"),
            node("GreaterOrEqual", "x z", "b"),
            node("Or", "a b", "c"),
            node("Not", "c", "d"),
            node("And", "c d", "e"),
            node("Equal", "x z", "f"),
            node("And", "e f", "y"),
        ],
        [value("x", [3, 4]), value("z", [4])],
        lifted="""
            x = input: f32[3, 4]
            z = input: f32[4]
            %2 = broadcast[shape=(3, 4)](z): f32[3, 4]
            %3 = greater(%2, x): bool[3, 4]
            %4 = broadcast[shape=(3, 4)](z): f32[3, 4]
            %5 = greater(%4, x): bool[3, 4]
            %6 = logical_not(%5): bool[3, 4]
            %7 = logical_or(%3, %6): bool[3, 4]
            %8 = logical_not(%7): bool[3, 4]
            %9 = logical_and(%7, %8): bool[3, 4]
            %10 = broadcast[shape=(3, 4)](z): f32[3, 4]
            %11 = equal(x, %10): bool[3, 4]
            %12 = logical_and(%9, %11): bool[3, 4]
            return %12
        """,
        written="""
            a = Greater(z, x)
            superopt/greater_5 = Greater(z, x)
            b = Not(superopt/greater_5)
            c = Or(a, b)
            d = Not(c)
            e = And(c, d)
            f = Equal(x, z)
            y = And(e, f)
        """,
    ),
    Case(
        "casts",
        [
            node("Cast", "x", "a", to=TensorProto.DOUBLE),
            node("Cast", "a", "b", to=TensorProto.DOUBLE),
            node("Cast", "b", "y", to=TensorProto.INT64),
        ],
        [value("x", [3, 4])],
        lifted="""
            x = input: f32[3, 4]
            %1 = cast[to=f64](x): f64[3, 4]
            %2 = identity(%1): f64[3, 4]
            %3 = opaque[domain=, op_type=Cast, index=2, reason=it cuts numbers off](%2): i64[3, 4]
            return %3
        """,
        written="""
            a = Cast(x)
            y = Cast(a)
        """,
    ),
    Case(
        "a mask as numbers",
        [node("Cast", "m", "a", to=TensorProto.FLOAT), node("Transpose", "a", "y")],
        [value("m", [3, 4], TensorProto.BOOL)],
        lifted="""
            m = input: bool[3, 4]
            %1 = cast[to=f32](m): f32[3, 4]
            %2 = transpose(%1): f32[4, 3]
            return %2
        """,
        written="""
            a = Cast(m)
            y = Transpose(a)
        """,
    ),
)
