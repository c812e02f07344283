"""The command line: thin commands, each calling one function of another room."""

from superopt.cli.main import main

__all__ = ["main"]
