from __future__ import annotations

import os
from pathlib import Path

import pytest

from superopt.processes.child import Returned
from superopt.server.problem_types import type_called
from superopt.server.process.child import Failed
from superopt.server.process.sandbox import Bounds, run_in_sandbox

BOUNDS = Bounds(seconds=1, bytes=512 << 20)
HERE = "tests.server.sandbox_functions"


def test_a_function_answers() -> None:
    arguments = {"name": "net.onnx", "n": 1}
    assert run_in_sandbox(f"{HERE}:answer", arguments, BOUNDS) == Returned({"given": arguments})


@pytest.mark.parametrize(
    ("function", "slug"),
    [
        ("refuse", "invalid-model"),
        ("loop", "model-too-costly"),
        ("take_memory", "model-too-costly"),
        ("crash", "model-too-costly"),
        ("recurse", "model-too-costly"),
        ("write", "invalid-model"),
        ("open_many", "invalid-model"),
        ("have_a_bug", "invalid-model"),
    ],
)
def test_nothing_that_a_reader_does_goes_further(tmp_path: Path, function: str, slug: str) -> None:
    path = tmp_path / "written"
    ending = run_in_sandbox(f"{HERE}:{function}", {"name": "net.onnx", "path": str(path)}, BOUNDS)
    assert isinstance(ending, Failed)
    assert type_called(str(ending.problem["type"])).slug == slug
    assert not path.exists() or path.read_bytes() == b""


def test_a_fork_lets_others_go_first() -> None:
    bounds = Bounds(seconds=1, bytes=1 << 30, niceness=3)
    assert run_in_sandbox(f"{HERE}:niceness", {}, bounds) == Returned({"niceness": os.nice(0) + 3})


def test_the_clock_is_bounded_too() -> None:
    assert isinstance(run_in_sandbox(f"{HERE}:sleep", {}, Bounds(seconds=0.1, bytes=1 << 30)), Failed)


def test_a_prepared_process_that_died_is_replaced() -> None:
    from superopt.server.process import sandbox

    server = sandbox._prepared._server
    assert server is not None
    server._process.kill()
    server._process.wait()
    assert run_in_sandbox(f"{HERE}:answer", {}, BOUNDS) == Returned({"given": {}})
