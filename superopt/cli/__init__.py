"""The command line: thin commands, each calling one function of another package."""

from superopt.cli.main import main

__all__ = ["main"]
