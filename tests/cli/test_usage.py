"""Wrong usage of the command line is one sentence: what was given, what was expected."""

from __future__ import annotations

import pytest

from superopt.cli.main import run


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("library verify --jobs x", "--jobs: expected a whole number, got 'x'"),
        ("library verify --jobs=0", "--jobs: expected at least 1, got '0'"),
        ("serve --port 99999", "--port: expected at most 65535, got '99999'"),
        ("optimize a.onnx -o b.onnx --budget 1m", "--budget: expected a number, got '1m'"),
        ("completion tcsh", "shell: expected one of 'bash', 'zsh', 'fish', got 'tcsh'"),
        (
            "optimize a.onnx b.onnx",
            (
                "unexpected argument 'b.onnx'; usage: superopt optimize [OPTIONS] {MODEL}; "
                "-o FILE names the file to write"
            ),
        ),
        ("check a b c", "unexpected argument 'c'; usage: superopt check [OPTIONS] {MODEL_A} {MODEL_B}"),
        ("optimise a", "No such command 'optimise'. Did you mean 'optimize'?"),
        ("zoo build", "Missing argument 'name'."),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    assert run(line.split()) == 2
    assert capsys.readouterr().err == f"superopt: {said}\n"


def test_tables_that_are_not_for_a_terminal_have_no_trailing_blanks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["zoo", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 20
    assert [line for line in lines if line != line.rstrip()] == []
