from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.conformance import run_schemathesis


@pytest.mark.parametrize("keyed", [False, True])
def test_schemathesis_finds_no_violation(tmp_path: Path, keyed: bool) -> None:  # noqa: FBT001
    done = run_schemathesis(tmp_path, examples=5, keyed=keyed)
    assert done.returncode == 0, done.stdout
    assert "No issues found" in done.stdout
