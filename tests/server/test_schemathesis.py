from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.conformance import PHASES, run_schemathesis


@pytest.mark.parametrize(("keyed", "phases"), [(False, ("fuzzing", "stateful")), (True, PHASES)])
def test_schemathesis_finds_no_violation(tmp_path: Path, keyed: bool, phases: tuple[str, ...]) -> None:  # noqa: FBT001
    """Without API keys without the slowest phase; ``python -m tests.server.conformance`` runs all of them."""
    done = run_schemathesis(tmp_path, examples=5, keyed=keyed, phases=phases)
    assert done.returncode == 0, done.stdout
    assert "No issues found" in done.stdout
