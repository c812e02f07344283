"""Schemas: one equation for all operators with some traits; marks, errors, and what hashes depend on."""

from __future__ import annotations

import pytest

from superopt.axioms import axioms_from_text, load_axioms
from superopt.equations import format_equation
from superopt.errors import InvalidEquationError

INSTANCES = {
    "attributes and side inputs are variables": (
        "for f in element_wise and of_one and not unary:\n    r-{f}: relu(f(x)) = f(relu(x))",
        {"r-scale": "relu(scale(x, w)) = scale(relu(x), w)"},
    ),
    "variables are new": (
        "for g in hard_sigmoid:\n    r-{g}: full[value=e]() = g(f)",
        {"r-hard-sigmoid": "full[value=e] = hard_sigmoid[alpha=g, beta=h](f)"},
    ),
    "side inputs may be written": (
        "for f in per_channel and linear:\n    {f}-x: f(x, relu(y)) => relu(f[axis=-1](x, y))",
        {"bias-add-x": "bias_add[axis=e](x, relu(y)) => relu(bias_add[axis=-1](x, y))"},
    ),
    "a default that is written stays": (
        "for f in spatial and has_padding and linear:\n    {f}-x: f[stride=1](x) = f[kernel=3, stride=s](x)",
        {
            "avgpool-x": (
                "avgpool[kernel=e, padding=g, includes_padding=h](x) "
                "= avgpool[kernel=3, stride=s, padding=g, includes_padding=h](x)"
            )
        },
    ),
    "an operator stands within itself": (
        "for f in reduce_max:\n    {f}-x:\n        f[axis=0](f[axis=1](add(x, f[axis=a](y))))\n        = x",
        {"reduce-max-x": "reduce_max[axis=0](reduce_max[axis=1](add(x, reduce_max[axis=a](y)))) = x"},
    ),
    "what types determine is left out": (
        "for f in cuts:\n    {f}-x: f[axis=a](relu(x)) = relu(f[axis=a](x))",
        {
            "split0-x": "split0[axis=a](relu(x)) = relu(split0[axis=a](x))",
            "split1-x": "split1[axis=a](relu(x)) = relu(split1[axis=a](x))",
        },
    ),
    "all equations of one reason, operator by operator": (
        """
# Why.
for f in cuts:
    # Other.
    a-{f}: f[axis=0](x) = x

    b-{f}: f[axis=1](x) = x
    c-{f}: f[axis=2](x) = x
""",
        {
            "a-split0": "split0[axis=0](x) = x",
            "a-split1": "split1[axis=0](x) = x",
            "b-split0": "split0[axis=1](x) = x",
            "c-split0": "split0[axis=2](x) = x",
            "b-split1": "split1[axis=1](x) = x",
            "c-split1": "split1[axis=2](x) = x",
        },
    ),
}


@pytest.mark.parametrize(("text", "expected"), INSTANCES.values(), ids=INSTANCES)
def test_a_schema_is_its_instances(text: str, expected: dict[str, str]) -> None:
    axioms = axioms_from_text({"f": text})
    written = {equation.name: format_equation(equation) for equation in axioms.equations}
    assert list(written.items()) == list(expected.items())
    assert set(axioms.schemas) == set(expected)


ERRORS = {
    "unknown trait": (
        "for f in fluffy:\n    a-{f}: f(x) = x",
        r"f.axioms: line 2: unknown trait fluffy; known: .*element_wise, .*has_axis.*'for f in fluffy:'",
    ),
    "no head": (
        "for f of unary:\n    a-{f}: f(x) = x",
        "line 2: expected `for NAME in TRAIT and not TRAIT:`",
    ),
    "no operator": (
        "for f in reduction and per_channel:\n    a-{f}: f(x) = x",
        "no operator has these traits",
    ),
    "no equations": ("for f in unary:\na: relu(x) = x", "line 1: expected indented equations below"),
    "name without the operator": ("for f in cuts:\n    a: f[axis=0](x) = x", r"expected {f} in the name 'a'"),
    "name clash": (
        "a-relu: relu(x) = x\n\nfor f in monotone:\n    a-{f}: f(x) = x",
        "f.axioms: expected a new name, got 'a-relu', for relu",
    ),
    "name clash of schemas": (
        "for f in monotone:\n    a-{f}: f(x) = x\nfor g in keeps_zero and unary:\n    a-{g}: g(x) = x",
        "expected a new name, got 'a-",
    ),
    "too many inputs": (
        "for f in unary:\n    a-{f}: f(x, y) = x",
        "line 2: .* has 1 inputs, 0 of them side inputs; got 2, in the schema 'for f in unary:'",
    ),
    "attribute that an operator lacks": (
        "for f in reduction:\n    a-{f}: f[axis=0](x) = x\n    b-{f}: f[axis=0, kernel=3](x) = x",
        "f.axioms: line 3, column .*: reduce_max has no attribute kernel",
    ),
    "unknown trait of a mark": (
        "# ring if fluffy: Why.\nfor f in cuts:\n    a-{f}: f[axis=0](x) = x",
        "line 3: unknown trait fluffy; known: ",
    ),
    "bracket": ("for f in cuts:\n    a-{f}: f[axis=0](x = x", "unclosed bracket"),
}


@pytest.mark.parametrize(("text", "message"), ERRORS.values(), ids=ERRORS)
def test_a_wrong_schema_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidEquationError, match=message):
        axioms_from_text({"f": text})


MARKED = """
# ring if polynomial, lemma if composite and not div: All of them.
for f in element_wise and of_two:
    a-{f}: f(relu(x), y) = f(x, y)

    # lemma: One of them.
    b-{f}: f(x, relu(y)) = f(x, y)
"""


def test_marks_are_for_operators_with_a_trait() -> None:
    axioms = axioms_from_text({"f": MARKED})
    assert axioms.ring == {"a-add", "a-sub", "a-sum", "a-mul"}
    binary = (
        *("add", "sub", "sum", "mul", "div", "maximum", "minimum"),
        *("equal", "greater", "logical-and", "logical-or"),
    )
    assert axioms.lemmas == {"a-sub", "a-sum", "a-minimum", *(f"b-{name}" for name in binary)}
    assert {axioms.reasons[name] for name in axioms.by_name} == {"All of them.", "One of them."}


def test_the_hash_is_of_instances_and_not_of_schemas() -> None:
    schema = axioms_from_text(
        {"f": "# Why.\nfor f in cuts:\n    {f}-x: f[axis=a](relu(x)) = relu(f[axis=a](x))"}
    )
    plain = axioms_from_text(
        {
            "g": "split1-x: split1[axis=a](relu(x)) = relu(split1[axis=a](x))\n"
            "split0-x: split0[axis=a](relu(x)) = relu(split0[axis=a](x))"
        }
    )
    assert schema.hash == plain.hash
    fewer = axioms_from_text(
        {"f": "for h in split0 and cuts:\n    {h}-x: h[axis=a](relu(x)) = relu(h[axis=a](x))"}
    )
    assert fewer.hash_of(["split0-x"]) == schema.hash_of(["split0-x"])
    assert fewer.hash != schema.hash


def test_no_instance_is_written_out_as_well() -> None:
    axioms = load_axioms()
    assert len(axioms.schemas) > 400
    seen = {format_equation(axioms.by_name[name]) for name in axioms.schemas}
    assert [
        e.name for e in axioms.equations if e.name not in axioms.schemas and format_equation(e) in seen
    ] == []
