"""What all commands have in common."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version

import pytest
import typer

from superopt.cli.main import build_app, run


def commands(app: typer.Typer, *before: str) -> Iterator[str]:
    """Every command as it is typed."""
    for command in app.registered_commands:
        yield " ".join((*before, str(command.name)))
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, *before, str(group.name))


def test_every_command_takes_json_and_a_database(capsys: pytest.CaptureFixture[str]) -> None:
    found = sorted(commands(build_app()))
    assert len(found) > 25
    for command in found:
        assert run([*command.split(), "--help"]) == 0
        options = re.findall(r"--[a-z-]+", capsys.readouterr().out)
        assert {"--json", "--database"} <= set(options), command


@pytest.mark.parametrize(
    "command", ["optimize", "replay", "report", "submit", "inspect", "check", "shards", "timeline", "profile"]
)
def test_the_list_of_commands_says_what_each_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In a line that is not cut off."""
    assert run(["--help"]) == 0
    (line,) = re.findall(rf"^  {command} +(.*)$", capsys.readouterr().out, re.MULTILINE)
    assert line.endswith(".")
    assert not line.endswith("...")


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"superopt {version('superopt')}\n"


def test_the_package_of_commands_is_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "superopt.cli", "--version"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.split()[0]) == (0, "superopt")
