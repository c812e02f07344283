"""Commands superopt library verify, import and export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.choices import StatusName
from superopt.cli.commands.library.coverage import FormatOption
from superopt.cli.output import DatabaseOption, JsonOption, Output, destination, several
from superopt.cli.progress import counted
from superopt.cli.resource_usage import ResourceUsage
from superopt.errors import InvalidOptionError
from superopt.files import require_writable

if TYPE_CHECKING:
    from superopt.journeys.library.peers import PeerRule
    from superopt.substitution_db import Database
    from superopt.substitution_db.store.records import Added

JobsOption = Annotated[int, typer.Option("--jobs", min=1, help="Processes.")]


def register(library: typer.Typer) -> None:
    """Adds the commands to those of ``superopt library``."""
    library.command("verify")(verify)
    library.command("import")(import_rules)
    library.command("export")(export)


def verify(
    everything: Annotated[bool, typer.Option("--all", help="Verify every rule again.")] = False,
    anew: Annotated[
        bool,
        typer.Option("--anew", help="With --all: search for all proofs, even where the stored one holds."),
    ] = False,
    stage: Annotated[
        bool, typer.Option("--stage", help="Record verdicts without publishing them (see `library publish`).")
    ] = False,
    identity: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Prove only this rule, again.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="With --id: the model of the evidence against a suspect rule, to re-examine it."),
    ] = None,
    jobs: JobsOption = 2,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> int:
    """Verify candidates and stale rules; an interrupted run can be continued.

    A rule of which only the checker has changed keeps its certificate if that passes the present checker and
    random evaluation finds no difference, as in `superopt gate`; for the others, proofs are searched.

    All verdicts are published to new jobs at once at the end; earlier jobs keep their library version. A
    proof does not end suspicion against a rule. With --id and the --model of the evidence, the rule is
    applied to that model again: if the outputs no longer differ, or the model quantises, rounds or sorts, so
    that a difference says nothing about a rule, it is proved again and used again on success. Exit 1 if it
    stays suspect or is refuted, 3 if it is unproved.

    Without --id: exit 3 if rules are left undecided because their processes took too long, lacked memory or
    crashed; exit 1 if a proved rule is refuted by an unpredictable instance, which reveals a false axiom.
    """
    from superopt.journeys.library import discovery
    from superopt.substitution_db import open_database
    from superopt.substitution_db.rules.currency import current

    output = Output(as_json)
    if model is not None and identity is None:
        raise InvalidOptionError("--model requires --id")
    if anew and not everything:
        raise InvalidOptionError("--anew requires --all")
    if identity is not None:
        if everything:
            raise InvalidOptionError("--all and --id exclude each other")
        return _verify_one(identity, model, database, stage=stage, output=output)
    usage = ResourceUsage()
    with open_database(database) as opened, counted("verifying") as progress:
        if everything:
            done = discovery.verify_all(opened, jobs=jobs, progress=progress, anew=anew)
        else:
            done = discovery.verify_pending(opened, jobs=jobs, progress=progress)
        version = opened.library.in_force() if stage else opened.library.publish(current(), "library verify")
    output.document(
        {
            "judged": done.judged,
            "verified": done.verified,
            "renewed": done.renewed,
            "refuted": done.refuted,
            "unproved": done.unproved,
            "superseded": done.superseded,
            "conditional": done.conditional,
            "contradicted": list(done.contradicted),
            "version": None if version is None else version.number,
            **usage.document(),
        }
    )
    renewed = f" ({done.renewed} by the stored certificate)" if done.renewed else ""
    output.line(
        f"{done.judged} judged: {done.verified} verified{renewed}, {done.refuted} refuted, "
        f"{done.unproved} unproved; "
        f"{done.superseded} superseded by more general rules, {done.conditional} stored with a condition; "
        f"{usage}"
    )
    for equation in done.contradicted:
        output.line(f"proved, and refuted by an unpredictable instance: {equation}")
    return 1 if done.contradicted else 0


_EXITS = {"verified": 0, "unproved": 3}


def _verify_one(
    identity: str, model: Path | None, database: str | None, *, stage: bool, output: Output
) -> int:
    from superopt.journeys.reexamination import (
        reexamine,
    )  # imports onnx, which the other commands do not need
    from superopt.substitution_db import open_database
    from superopt.substitution_db.rules.currency import current

    with open_database(database) as opened:
        found = reexamine(opened, identity, model)
        if not stage:
            opened.library.publish(current(), f"library verify --id {identity}")
    output.document(
        {
            "id": identity,
            "status": str(found.status),
            "standing": list(found.standing),
            "reason": found.reason,
        }
    )
    output.line(f"{identity}: {found.status}{f': {found.reason}' if found.reason else ''}")
    for evidence in found.standing:
        output.line(f"    {evidence}")
    return _EXITS.get(found.status, 1)


def import_rules(
    file: Annotated[Path, typer.Argument(help="The file of rules.")],
    file_format: FormatOption = None,
    jobs: JobsOption = 2,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store the rules of a file as candidates, regardless of their status in the file.

    New rules are evaluated at random, as by `superopt gate`, and false ones reported; `library verify` gives
    verdicts.
    """
    from superopt.journeys.library.peers import PeerFormat, format_of, read_rules, why_none
    from superopt.journeys.library.peers.importing import import_peer_rules
    from superopt.substitution_db import open_database
    from superopt.substitution_db.rules.exchange import import_json_lines, import_text

    output = Output(as_json)
    chosen = PeerFormat(file_format) if file_format else format_of(file)
    left_out: tuple[PeerRule, ...] = ()
    if chosen in (PeerFormat.JSONL, PeerFormat.TEXT):
        read = import_json_lines if chosen is PeerFormat.JSONL else import_text
        with open_database(database) as opened:
            added = read(file, opened.rules)
            refuted = _refuted(opened, added, jobs)
    else:
        rules = read_rules(file, chosen)
        with open_database(database) as opened:
            imported = import_peer_rules(rules, file.name, opened.rules)
            refuted = _refuted(opened, imported.added, jobs)
        added, left_out = imported.added, imported.left_out
    output.document(
        {
            "new": added.new,
            "known": added.known,
            "refuted": [{"id": rule, "counterexample": found} for rule, found in refuted.items()],
            "left_out": [{"index": r.index, "name": r.name, "reason": why_none(r)} for r in left_out],
        }
    )
    for rule in left_out:
        output.line(f"{rule.index}  {rule.name}: {why_none(rule)}")
    for rule, found in refuted.items():
        output.line(f"{rule}  is false: {found}")
    without = f", {len(left_out)} left out" if left_out else ""
    then = "; next: superopt library verify" if added.new else ""
    output.line(f"{added.new} new candidates, {added.known} known before{without}{then}")


def _refuted(database: Database, added: Added, jobs: int) -> dict[str, str]:
    """The counterexamples found for added rules, by id."""
    from superopt.equations import parse_equation
    from superopt.substitution_db.rules.claims import counterexample_of
    from superopt.verifier.pool import judge_all

    rules = [rule for rule in database.rules.list() if rule.id in added.ids]
    with counted("evaluating") as progress:
        found = judge_all(
            counterexample_of,
            [parse_equation(rule.equation) for rule in rules],
            lost=lambda _, __: "",
            jobs=jobs,
            progress=progress,
        )
        return {rule.id: text for rule, text in zip(rules, found, strict=True) if text}


def export(
    file: Annotated[
        Path,
        typer.Argument(
            help="The file to write, as JSON lines; - is standard output.",
            parser=destination,
            metavar="FILE",
        ),
    ],
    status: Annotated[StatusName, typer.Option(help="Only rules with this status.")] = "verified",
    selected: Annotated[
        bool,
        typer.Option("--selected", help="Only rules chosen by `library select`, without proof times."),
    ] = False,
    left_out: Annotated[
        bool,
        typer.Option("--left-out", help="Only rules left out by `library select`, as text with reasons."),
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write rules with their proofs as JSON lines."""
    from superopt.substitution_db import RuleFilter, RuleStatus, open_database
    from superopt.substitution_db.rules.currency import current
    from superopt.substitution_db.rules.exchange import export_left_out, export_rules, export_selected

    output = Output.beside(as_json, file)
    require_writable(file)
    with open_database(database) as opened:
        opened.rules.refresh(current())
        rules = opened.rules.list(RuleFilter(status=RuleStatus(status)))
    if selected and left_out:
        raise InvalidOptionError("--selected and --left-out exclude each other")
    write = export_selected if selected else export_left_out if left_out else export_rules
    count = write(rules, file)
    output.document({"path": str(file), "rules": count})
    output.line(f"{file}: {several(count, 'rule')}")
