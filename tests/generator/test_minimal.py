"""What equality saturation drops from the candidates, and what it must leave."""

from fractions import Fraction

import pytest

from superopt.equations import parse_equation
from superopt.generator.prune.minimal import minimal
from superopt.generator.prune.pruning import Candidate
from superopt.generator.prune.questions import settings

TRANSPOSED = "transpose(matmul(x, y)) <=> matmul(transpose(y), transpose(x))"
ASSOCIATIVE = "matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)"
LONG = (
    "transpose(matmul(matmul(x, y), z)) <=> matmul(transpose(z), matmul(transpose(y), transpose(x)))",
    "add(add(relu(x), y), z) <=> add(add(z, y), relu(x))",
)


def candidate(text: str) -> Candidate:
    """An equation between matrices as it comes out of pruning."""
    equation = parse_equation(text)
    shapes = dict.fromkeys(equation.variables, (4, 4))
    return Candidate(equation, (equation,), "a test", shapes)


@pytest.mark.parametrize(
    ("kept", "asked", "outcome"),
    [
        ((TRANSPOSED, ASSOCIATIVE), LONG[0], "goes"),
        ((ASSOCIATIVE,), LONG[0], "stays"),
        (("add(x, y) <=> add(y, x)", "add(x, add(y, z)) <=> add(add(x, y), z)"), LONG[1], "goes"),
        (("add(x, y) <=> add(y, x)",), LONG[1], "stays"),
        ((LONG[0],), TRANSPOSED, "stays"),
        ((TRANSPOSED, ASSOCIATIVE), "matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)", "stays"),
    ],
)
def test_what_smaller_candidates_give_goes(kept: tuple[str, ...], asked: str, outcome: str) -> None:
    candidates = [candidate(text) for text in (asked, *kept)]
    found = minimal(candidates)
    assert ("stays" if candidates[0] in found.kept else "goes") == outcome
    assert found.kept == tuple(c for c in candidates if c in found.kept)
    assert (found.untyped, found.unfinished) == (0, 0)


def test_numbers_left_open_are_tried_in_their_kind() -> None:
    general = parse_equation("lrn[size=n, alpha=k](relu(relu(x))) => lrn[size=n, alpha=k](relu(x))")
    tried = [closed.applications[-1] for closed in settings(general, general.direction)]
    assert len({term.attribute("size") for term in tried}) == len(tried) > 1
    assert all(isinstance(term.attribute("size"), int) for term in tried)
    assert all(isinstance(term.attribute("alpha"), Fraction) for term in tried)
