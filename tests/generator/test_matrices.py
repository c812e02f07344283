"""Discovery over matrices: the rules of the dissertation come out, nothing false, and always the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

from superopt.equations import format_equation
from superopt.errors import InvalidOptionError
from superopt.generator import Progress, generate, load_preset
from superopt.generator.generalise.sampling import Sampler
from superopt.ir.terms import Direction
from superopt.rewriting import substitutions_of
from tests.generator.generations import candidate_of, generation

FOUND = {
    "associativity (dissertation, figure 2.2a)": "matmul(matmul(x, y), z) <=> matmul(x, matmul(y, z))",
    "two products with a common left matrix (figure 2.2b)": (
        "(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), "
        "split1[axis=-1](matmul(x, concat[axis=-1](y, z))))"
    ),
    "two products with a common right matrix": (
        "(matmul(x, y), matmul(z, y)) => (split0[axis=-2](matmul(concat[axis=-2](x, z), y)), "
        "split1[axis=-2](matmul(concat[axis=-2](x, z), y)))"
    ),
    "transposed product (figure 2.5)": "matmul(transpose(x), transpose(y)) <=> transpose(matmul(y, x))",
    "distributivity on the right": "add(matmul(x, y), matmul(x, z)) <=> matmul(x, add(y, z))",
    "distributivity on the left": "add(matmul(x, y), matmul(z, y)) <=> matmul(add(x, z), y)",
    "factoring over mul": "add(mul(x, y), mul(x, z)) <=> mul(x, add(y, z))",
    "columns": "concat[axis=-1](matmul(x, y), matmul(x, z)) <=> matmul(x, concat[axis=-1](y, z))",
    "rows": "concat[axis=-2](matmul(x, y), matmul(z, y)) <=> matmul(concat[axis=-2](x, z), y)",
    "a sum of products as one": (
        "add(matmul(x, y), matmul(z, w)) <=> matmul(concat[axis=-1](x, z), concat[axis=-2](y, w))"
    ),
    "factors move through products": "matmul(scale(x, y), z) <=> scale(matmul(x, z), y)",
    "relu and transpose": "relu(transpose(x)) <=> transpose(relu(x))",
    "relu of blocks": "concat[axis=a](relu(x), relu(y)) <=> relu(concat[axis=a](x, y))",
    "transposing blocks": "concat[axis=-1](transpose(x), transpose(y)) <=> transpose(concat[axis=-2](x, y))",
    "undoing a concat": "split0[axis=a](concat[axis=a](x, y)) => x",
    "transposing twice": "transpose(transpose(x)) => x",
}


@pytest.mark.parametrize("rule", FOUND.values(), ids=FOUND)
def test_is_found(rule: str) -> None:
    candidate = candidate_of(generation("matrix", 3), rule)
    assert candidate is not None
    assert candidate.text == rule


def test_counts() -> None:
    made = generation("matrix", 3)
    assert [(level.ops, level.terms, level.classes) for level in made.levels] == [
        (1, 140, 134),
        (2, 3364, 2790),
        (3, 28924, 23694),
    ]
    assert made.pairs == 22639
    assert made.pairs > made.distinct > 2000
    assert made.kept + sum(n for why, n in made.dropped.items() if why != "unusable") >= made.distinct
    assert 100 <= made.kept <= 200


def test_memory() -> None:
    """In a process of its own: the most that a process ever had is what is told."""
    code = (
        "from superopt.generator import generate, load_preset; "
        "print(generate(load_preset('matrix'), max_ops=3).peak_memory_bytes)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1 << 30


def test_every_candidate_holds_where_matrices_are_not_square() -> None:
    wide = (3, 5)
    for candidate in generation("matrix", 3).candidates:
        shapes = {name: wide[: len(shape)] for name, shape in candidate.shapes.items()}
        assert Sampler().holds(candidate.equation, shapes, samples=4), format_equation(candidate.equation)


def test_every_candidate_can_be_used_as_a_rule() -> None:
    for candidate in generation("matrix", 3).candidates:
        for form in candidate.generalizations:
            directions = substitutions_of(form, "0" * 16)
            assert len(directions) == (2 if form.direction is Direction.BOTH else 1)


def test_the_same_again() -> None:
    events: list[Progress] = []
    again = generate(load_preset("matrix"), max_ops=2, progress=events.append)
    assert [c.text for c in again.candidates] == [c.text for c in generation("matrix", 2).candidates]
    assert [event.level.ops for event in events if event.level is not None] == [1, 2, 1, 2]
    assert list(dict.fromkeys(event.activity for event in events)) == [
        "enumerate",
        "prune",
        "prune merges",
        "saturate",
    ]


def test_only_the_operators_asked_for() -> None:
    made = generation("matrix", 2, "matmul", "transpose")
    assert [candidate.text for candidate in made.candidates] == [
        "transpose(transpose(x)) => x",
        "matmul(matmul(x, y), z) <=> matmul(x, matmul(y, z))",
        "matmul(transpose(x), transpose(y)) <=> transpose(matmul(y, x))",
    ]


def test_a_size_of_0_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="max_ops: expected at least 1, got 0"):
        generate(load_preset("matrix"), max_ops=0)
