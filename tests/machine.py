"""What tests use of the machine: where it is missing they are skipped, and the run ends with how to get it.

``make packages`` installs all of these where it can.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

_OWN_BROWSERS = "ms-playwright/chromium-*/chrome-linux*/chrome"
"""Where Playwright puts what it downloads, in the user's cache."""


def require_program(name: str, package: str) -> str:
    """The path of a program; skips the test where there is none, with the package that has it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: apt-get install {package}")
    return found


def require_chromium() -> str:
    """The path of Chromium, of the machine or Playwright's own."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    own = sorted((Path.home() / ".cache").glob(_OWN_BROWSERS))
    if found is None and not own:
        pytest.skip("no Chromium: apt-get install chromium libatomic1, or playwright install chromium")
    return found or str(own[-1])


def reasons(skipped: Iterable[pytest.TestReport]) -> list[str]:
    """A line for each reason for which tests were skipped, most frequent first."""
    counts = Counter(
        cast("tuple[str, int, str]", report.longrepr)[2].removeprefix("Skipped: ") for report in skipped
    )
    return [f"skipped {count}: {reason}" for reason, count in counts.most_common()]
