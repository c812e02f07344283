"""What all commands have in common."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

from superopt import cli
from superopt.cli.main import run
from superopt.cli.registry import COMMANDS, Command, Group, registered

GROUPS: Mapping[tuple[str, ...], Mapping[str, Command | Group]] = {
    (): COMMANDS,
    **{(name,): command.commands for name, command in COMMANDS.items() if isinstance(command, Group)},
}


def commands() -> Iterator[str]:
    """Every command as it is typed."""
    for group, listed in GROUPS.items():
        yield from (
            " ".join((*group, name)) for name, command in listed.items() if isinstance(command, Command)
        )


def test_every_command_takes_json_and_a_database(capsys: pytest.CaptureFixture[str]) -> None:
    for command in commands():
        assert run([*command.split(), "--help"]) == 0
        options = re.findall(r"--[a-z-]+", capsys.readouterr().out)
        assert {"--json", "--database"} <= set(options), command


@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_the_list_of_commands_says_what_each_does(
    group: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """In a line that is not cut off."""
    assert run([*group, "--help"]) == 0
    listing = capsys.readouterr().out.partition("\nCommands:\n")[2]
    lines = dict(re.findall(r"^  ([a-z-]+) +(.*)$", listing, re.MULTILINE))
    assert lines == {name: command.summary for name, command in GROUPS[group].items()}


@pytest.mark.parametrize(
    "module",
    sorted(
        {
            command.module
            for listed in GROUPS.values()
            for command in listed.values()
            if isinstance(command, Command)
        }
    ),
)
def test_the_commands_of_a_module_are_those_that_it_registers(module: str) -> None:
    listed = [
        {name for name, command in group.items() if isinstance(command, Command) and command.module == module}
        for group in GROUPS.values()
    ]
    assert set(registered(module)) in listed


def test_every_module_of_commands_is_used() -> None:
    modules = {path.stem for path in (Path(cli.__path__[0]) / "commands").glob("[!_]*.py")}
    used = {
        command.module
        for listed in GROUPS.values()
        for command in listed.values()
        if isinstance(command, Command)
    }
    assert modules <= used


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"superopt {version('superopt')}\n"


def test_the_package_of_commands_is_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "superopt.cli", "--version"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.split()[0]) == (0, "superopt")
