from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_threat_model_names_exists() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", page)
    assert len(named) > 20
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{test}"
    threats = page.partition("## Threats")[2].partition("\n\n`python")[0]
    rows = [row for row in threats.splitlines() if row.startswith("| ")][1:]
    assert all("::test_" in row for row in rows)
