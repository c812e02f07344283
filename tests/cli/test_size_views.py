"""What summaries say of sizes."""

from __future__ import annotations

import pytest

from superopt.cli.views.size import checked_pairs, frozen_pairs, size_pairs

PRICED = {"batch": 1, "seq": 128}


@pytest.mark.parametrize(
    ("section", "lines"),
    [
        (None, {}),
        ({"priced": {}, "checked": [], "timed": None, "guessed": [], "request": ""}, {}),
        (
            {"priced": PRICED, "checked": [PRICED], "timed": PRICED, "guessed": [], "request": ""},
            {"sizes": "batch=1 seq=128"},
        ),
        (
            {
                "priced": PRICED,
                "checked": [PRICED, {"batch": 2, "seq": 48}],
                "timed": {"batch": 1, "seq": 64},
                "guessed": ["seq"],
                "request": "--dim seq=128",
            },
            {
                "sizes": "batch=1 seq=128 (guessed: seq); timed at batch=1 seq=64; also checked at "
                "batch=2 seq=48",
                "": "give the sizes you run with: --dim seq=128",
            },
        ),
        (
            {
                "priced": PRICED,
                "timed": PRICED,
                "smaller": {"sizes": {"batch": 1, "seq": 32}, "ratio": 0.66, "low": 0.641, "high": 0.68},
            },
            {
                "sizes": "batch=1 seq=128",
                "": "at batch=1 seq=32: 0.66 (0.64 to 0.68) times as fast",
            },
        ),
    ],
)
def test_sizes_in_a_summary(section: object, lines: dict[str, object]) -> None:
    assert size_pairs(section) == lines


def test_checked_sizes_in_a_summary() -> None:
    assert checked_pairs(()) == {}
    assert checked_pairs(({"batch": 1, "seq": 9}, {"batch": 2, "seq": 3})) == {
        "sizes": "batch=1 seq=9; batch=2 seq=3"
    }


def test_frozen_sizes_in_a_summary() -> None:
    assert frozen_pairs({"frozen": PRICED}) == {"frozen": "for batch=1 seq=128 only"}
    assert frozen_pairs({"frozen": {}}) == frozen_pairs(None) == {}
    given = {"sizes": PRICED, "ratio": 0.96, "low": 0.951, "high": 0.97}
    assert frozen_pairs({"frozen": PRICED}, {"given": given}) == {
        "frozen": "for batch=1 seq=128 only; 0.96 (0.95 to 0.97) times as fast as the model with open sizes"
    }


def test_what_was_changed_on_request_is_said() -> None:
    model = {"adapted": ["inlining 1 function", "converting operator set 13 to 18"], "frozen": {"n": 3}}
    assert frozen_pairs(model) == {
        "changed": "inlining 1 function and converting operator set 13 to 18",
        "frozen": "for n=3 only",
    }
    assert frozen_pairs({"adapted": [], "frozen": {}}) == {}
