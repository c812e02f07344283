"""The commands: name, summary and module of each. A module is imported when its command is parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from superopt.processes.garbage import not_collecting

if TYPE_CHECKING:
    from typer._click.core import Context


COMPLETING = "_SUPEROPT_COMPLETE"
"""The environment variable with which the script of a shell asks for completions."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its line in the list of commands, and the module in ``commands`` that registers it."""

    summary: str
    module: str


@dataclass(frozen=True, slots=True)
class Group:
    """Commands that share a first word."""

    summary: str
    commands: Mapping[str, Command]


COMMANDS: Mapping[str, Command | Group] = {
    "optimize": Command("Write a faster equivalent model, or the original.", "optimize"),
    "replay": Command("Apply the trace of a report again.", "optimize"),
    "report": Command("Render a report as HTML.", "optimize"),
    "shards": Command("Write the model for each device of a plan.", "plan"),
    "timeline": Command("Simulate a plan again and write its timeline.", "plan"),
    "submit": Command("Optimize a model on a service.", "service.submit"),
    "inspect": Command("Show the supported and unsupported parts of a model.", "model"),
    "check": Command("Check whether two models give the same outputs.", "model"),
    "prove": Command("Prove one rule.", "rule"),
    "gate": Command("Check that every rule has a proof that replays.", "rule"),
    "profile": Command("Measure kernel costs on a device.", "profile"),
    "train-graph": Command("Write the training step of a model.", "training.train_graph"),
    "train": Command("Train: run a training step on samples.", "training.train"),
    "serve": Command("Serve HTTP and run jobs until interrupted.", "service.processes"),
    "worker": Command("Run jobs of the database's queue until interrupted.", "service.processes"),
    "completion": Command("Print the completion script of a shell.", "completion"),
    "axioms": Group(
        "The axioms that proofs rest on.",
        {
            "list": Command("List all axioms and adjoint statements by family.", "axioms.axiom"),
            "validate": Command("Check axioms against the semantics of operators.", "axioms.axiom"),
            "consistency": Command("Search for falsehoods that follow from the axioms.", "axioms.analysis"),
            "redundancy": Command("Search for axioms that follow from the others.", "axioms.analysis"),
            "discover": Command("Discover gradients of operators from their semantics.", "axioms.discover"),
        },
    ),
    "zoo": Group(
        "The papers' benchmark networks.",
        {
            "list": Command("List the networks that can be built.", "zoo"),
            "build": Command("Build a network with seeded weights and write it.", "zoo"),
        },
    ),
    "library": Group(
        "The library of rules.",
        {
            "generate": Command("Discover rules and store them as candidates.", "library.generate"),
            "algorithms": Command(
                "Discover filters and products with fewer multiplications.", "library.algorithms"
            ),
            "coverage": Command("Classify the rules of another project's file.", "library.coverage"),
            "stats": Command("Count rules by state, preset, size and operator.", "library.content"),
            "list": Command("List rules, smallest first.", "library.content"),
            "show": Command("Show a rule with its proof or counterexample.", "library.content"),
            "document": Command("Write a Markdown page about a library.", "library.content"),
            "select": Command("Choose which verified rules ship.", "library.selection"),
            "compare": Command("Compare two files of rules, ignoring times.", "library.selection"),
            "publish": Command("Publish all verdicts recorded so far at once.", "library.versions"),
            "versions": Command(
                "List the versions of the library, the current one first.", "library.versions"
            ),
            "restore": Command("Publish an earlier version again.", "library.versions"),
            "verify": Command("Verify candidates; an interrupted run can be continued.", "library.files"),
            "import": Command("Store the rules of a file as candidates.", "library.files"),
            "export": Command("Write rules with their proofs as JSON lines.", "library.files"),
        },
    ),
    "strategy": Group(
        "How the gradients of a training step are synchronised.",
        {
            "build": Command("Write the strategy of one of AutoDist's builders.", "training.strategy"),
            "auto": Command("Search for the fastest strategy by simulation.", "training.strategy"),
            "apply": Command(
                "Write the step of a strategy with staleness or compressors.", "training.strategy"
            ),
            "import": Command("Read a strategy in AutoDist's published format.", "training.strategy"),
            "export": Command("Write a strategy in AutoDist's published format.", "training.strategy"),
        },
    ),
    "keys": Group(
        "Manage API keys; without any, only this machine is served.",
        {
            "create": Command("Create an API key; its token is shown only once.", "service.keys"),
            "list": Command("List API keys.", "service.keys"),
            "revoke": Command("Revoke an API key.", "service.keys"),
        },
    ),
    "db": Group(
        "The database.",
        {"upgrade": Command("Migrate the database to the newest schema.", "service.database")},
    ),
}
"""All commands, in the order in which they are listed."""


class _Deferred(TyperCommand):
    """A command in a list of commands; parsing imports its module and hands over to the real one."""

    def __init__(self, name: str, command: Command) -> None:
        super().__init__(name, help=command.summary, rich_markup_mode=None)
        self._module = command.module

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        """The context of the real command."""
        command = registered(self._module)[str(self.name)]
        return command.make_context(info_name, args, parent, **extra)  # pyright: ignore[reportUnknownMemberType]


def new_group(summary: str) -> typer.Typer:
    """A group of commands without any."""
    return typer.Typer(
        help=summary,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )


def fill(group: TyperGroup, commands: Mapping[str, Command | Group]) -> TyperGroup:
    """Adds the commands to a group, to be imported when they are used."""
    for name, command in commands.items():
        if isinstance(command, Command):
            group.add_command(_Deferred(name, command))
        else:
            group.add_command(fill(get_group(new_group(command.summary)), command.commands), name)
    return group


@cache
def registered(module: str) -> Mapping[str, TyperCommand]:
    """The commands that a module registers."""
    app = new_group("")
    with not_collecting():
        import_module(f"superopt.cli.commands.{module}").register(app)
    return get_group(app).commands  # pyright: ignore[reportReturnType]
