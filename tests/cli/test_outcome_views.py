"""What summaries say of what came back, and of what did not."""

from __future__ import annotations

import io

import pytest

from superopt.cli.output import Output
from superopt.cli.views.outcome import outcome_pairs, simplified_pairs
from superopt.optimizer.canonical import CanonicalStep

FALSE: dict[str, object] = {"rules": ["a1", "b2"], "equal": False, "why": "not equal: output y"}
SLOW: dict[str, object] = {"rules": ["a1"], "equal": True, "why": "equal, but not certainly faster"}
UNSURE: dict[str, object] = {
    "rules": ["a1"],
    "equal": True,
    "why": "equal, but undecided: the machine is too loaded",
}
BARE: dict[str, object] = {"rules": [], "equal": True, "why": "equal, but no rule was applied"}


@pytest.mark.parametrize(
    ("report", "text"),
    [
        ({"returned": "original", "why": "w"}, "returned  original: w\n"),
        (
            {"returned": "original", "why": SLOW["why"], "rejected": [SLOW]},
            (
                "returned  original: nothing better was found\n"
                "rejected  the model with rule a1, because not certainly faster\n"
            ),
        ),
        (
            {"returned": "original", "why": SLOW["why"], "rejected": [SLOW, UNSURE]},
            (
                "returned  original: nothing was shown to be better\n"
                "rejected  the model with rule a1, because not certainly faster\n"
                "          the model with rule a1, because undecided: the machine is too loaded\n"
            ),
        ),
        (
            {"returned": "original", "why": "w", "rejected": [FALSE, SLOW, BARE]},
            (
                "returned  original: w\n"
                "rejected  the model with 2 rules, because not equal: output y\n"
                "          the model with rule a1, because not certainly faster\n"
                "          the model without rules, because no rule was applied\n"
            ),
        ),
        (
            {"returned": "optimized", "why": "w", "rejected": [FALSE]},
            "returned  optimized: w\nrejected  the model with 2 rules, because not equal: output y\n",
        ),
    ],
)
def test_each_rejected_variant_has_its_line(report: dict[str, object], text: str) -> None:
    shown = io.StringIO()
    Output(as_json=False, file=shown).pairs(outcome_pairs(report))
    assert shown.getvalue() == text


def test_what_was_rewritten_before_the_search_is_counted() -> None:
    kinds = {"an image of one row": 4, "two reshapes are one": 2, "it does nothing": 1, "a": 1, "b": 1}
    steps = [CanonicalStep("canonicalise", kind, ()) for kind, times in kinds.items() for _ in range(times)]
    line = "before the search: 4 times an image of one row; 2 times two reshapes are one; it does nothing"
    assert simplified_pairs("optimized", steps) == {"simplified": f"{line}; 2 other changes"}
    assert simplified_pairs("optimized", steps[:7]) == {"simplified": line}
    assert simplified_pairs("optimized", []) == simplified_pairs("original", steps) == {}
