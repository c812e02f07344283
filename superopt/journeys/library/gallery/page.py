"""Generator of docs/library.md: statistics of the shipped library, and a gallery of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from textwrap import wrap

from superopt.axioms import load_axioms
from superopt.equations import abbreviated, drawing, parse_equation
from superopt.files import write_atomically
from superopt.journeys.library.gallery.choice import LEAST_SAVED, SHOWN, Choice, Chosen, chosen
from superopt.journeys.library.gallery.gains import (
    BYTES_PER_MICROSECOND,
    FLOPS_PER_MICROSECOND,
    IMAGE,
    LAUNCH_MICROSECONDS,
    SIZE,
    SKEWED,
)
from superopt.journeys.library.gallery.kinds import DESCRIPTIONS, Kind
from superopt.journeys.library.gallery.uses import NETWORKS
from superopt.substitution_db.rules.certificates import read_stored
from superopt.substitution_db.rules.exchange import read_shipped
from superopt.substitution_db.rules.statistics import (
    Facts,
    Origin,
    RuleStatistics,
    kinds_of_selection,
    statistics_of,
)
from superopt.substitution_db.store.records import Outcome, Proof, RuleStatus, Selection
from superopt.substitution_db.store.rows import NewRule

COMMAND = "superopt library document"
WIDTH = 118


@dataclass(frozen=True, slots=True)
class Page:
    """The Markdown text, and SVG pictures by file name."""

    text: str
    pictures: Mapping[str, str]


def library_page(library: Path, pictures: str, networks: Sequence[str] = NETWORKS) -> Page:
    """The page about the verified rules of a file; ``pictures`` is the path of its pictures, ``networks`` are
    the zoo networks in which rules are tried.

    Deterministic for the same file, operators, networks and verifier. Raises InvalidFileError.
    """
    rules = {rule.id: (rule, proof) for rule, proof in read_shipped(library)}
    verified = {
        identity: (rule, proof)
        for identity, (rule, proof) in rules.items()
        if proof is not None and proof.verdict is Outcome.VERIFIED
    }
    shown = chosen(
        {identity: parse_equation(rule.equation) for identity, (rule, _) in verified.items()}, networks
    )
    statistics = statistics_of(_facts(rule, proof) for rule, proof in rules.values())
    choices = [rule.selection for rule, _ in verified.values() if rule.selection is not None]
    parts = [*_introduction(statistics), *_selection(choices, pictures), *_counts(statistics)]
    parts += _criterion(shown, networks)
    drawings: dict[str, str] = {}
    for kind in Kind:
        choices = shown.choices[kind]
        if choices:
            parts += [f"### {kind}", "", f"{DESCRIPTIONS[kind]}{_of(len(choices), shown.counts[kind])}", ""]
        for choice in choices:
            parts += _entry(choice, *verified[choice.rule], pictures)
            drawings[f"{choice.rule}.svg"] = drawing(choice.equation)
    return Page("\n".join(parts).rstrip() + "\n", drawings)


def write_page(page: Page, path: Path) -> None:
    """Writes the page, and its pictures into a directory of its name; removes old pictures there."""
    directory = path.with_suffix("")
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in page.pictures.items():
        write_atomically(directory / name, content.encode())
    for old in directory.glob("*.svg"):
        if old.name not in page.pictures:
            old.unlink()
    write_atomically(path, page.text.encode())


def _facts(rule: NewRule, proof: Proof | None) -> Facts:
    status = RuleStatus.CANDIDATE if proof is None else RuleStatus(proof.verdict)
    return Facts.of(status, rule.conditions, rule.provenance, rule.operators_source, proof)


def _introduction(statistics: RuleStatistics) -> Iterator[str]:
    rules = statistics.by_status[RuleStatus.VERIFIED]
    yield from ("# The rules that come with superopt", "")
    yield from _paragraph(
        f"""`{COMMAND}`, a part of `make library`, writes this page; a test compares it with the library.
        `superopt library list` lists the rules, `superopt library show ID` shows one with its proof, and
        `superopt library stats` counts the rules of your database. [proof.md](proof.md) explains how a rule
        is proved, [equations.md](equations.md) how equations are written."""
    )
    yield from _paragraph(
        f"""The library has **{rules} rules**. Each was discovered and then proved; none was
        written by hand. {statistics.replayed} have a stored chain of axioms that replays for all sizes,
        {statistics.confirmed} were also derived by a second prover, and {statistics.conditional} hold under
        a stated condition."""
    )


def _selection(choices: Sequence[Selection], directory: str) -> Iterator[str]:
    """The section about selection: method, and counts by reason; empty without a selection."""
    if not choices:
        return
    yield from ("## Selection", "")
    yield from _paragraph(
        f"""Discovery proves more rules than a search can use: facts about constants that no model has, and
        consequences of other rules. `superopt library select` decides in this order. Rules that divide
        tensors ship. A rule does not ship if it saves nothing and each of its directions starts from a
        constant that only rules introduce, or introduces one with which nothing is computed. Nor does it
        ship if smaller rules that ship derive it in a few steps. Then networks of the zoo and micrographs are
        searched, once with the remaining rules and once with all rules. If all rules find a cheaper graph,
        the rules that lead to it ship as well. Prices are analytic, and searches end after a number of
        graphs, so the choice is the same on every machine. `superopt library show ID` prints the reason for
        a rule; [left-out.txt]({directory}/left-out.txt) lists the rules that do not ship, with reasons."""
    )
    yield from ("| ships because | rules |", "|---|---:|")
    yield from (f"| {kind.why} | {count} |" for kind, count in kinds_of_selection(choices))
    yield ""


def _counts(statistics: RuleStatistics) -> Iterator[str]:
    sizes = sorted({size for count in statistics.by_origin for size in count.by_size})
    yield from ("## Numbers", "")
    yield from _paragraph(
        """The table counts rules by the preset that found them, the largest number of operators of a graph
        in that run (at most), and the number of operators of the source. A rule that several presets find
        is counted for the first one."""
    )
    yield from (
        f"| preset | at most | {' | '.join(map(str, sizes))} | rules | with a condition |",
        f"|---|---:|{'---:|' * (len(sizes) + 2)}",
    )
    for count in statistics.by_origin:
        numbers = [str(count.by_size.get(size, "")) for size in sizes]
        origin = count.origin
        yield (
            f"| {origin.preset} | {origin.max_ops or ''} | {' | '.join(numbers)} | {count.rules} "
            f"| {count.conditional or ''} |"
        )
    totals = [str(sum(c.by_size.get(size, 0) for c in statistics.by_origin)) for size in sizes]
    rules = statistics.by_status[RuleStatus.VERIFIED]
    yield from (
        f"| **all** | | {' | '.join(totals)} | {rules} | {statistics.conditional} |",
        "",
        "By the families of the operators of the source (a rule may have several):",
        "",
        "| family | rules |",
        "|---|---:|",
    )
    ranked = sorted(statistics.verified_by_family.items(), key=lambda item: (-item[1], item[0]))
    yield from (f"| {family} | {count} |" for family, count in ranked)
    yield ""


def _criterion(shown: Chosen, tried: Sequence[str]) -> Iterator[str]:
    gigaflops, gigabytes = FLOPS_PER_MICROSECOND // 1000, BYTES_PER_MICROSECOND // 1000
    yield from ("## The most useful rules", "")
    yield from _paragraph(
        f"""The rules shown here are chosen by a score. Both sides of a rule are priced by the work that the
        operators declare, on a nominal machine ({gigaflops} GFLOP/s, {gigabytes} GB/s,
        {LAUNCH_MICROSECONDS:g} µs for each operator), at sizes {SIZE} (images {IMAGE} by {IMAGE}) and with
        one dimension at a time {SKEWED[0]} or {SKEWED[1]}. Kernels, scales and shifts are constants, and so
        are operands of products if that gains more; what depends on constants alone is computed once and
        costs nothing. The score is the largest share of the cost that a rule saves, times one more than the
        number of networks ({", ".join(tried)}) in which that direction of it applies. For each kind the
        best {SHOWN} with different operators are shown."""
    )
    yield from _paragraph(
        f"""{sum(shown.counts.values())} rules save at least {LEAST_SAVED:.0%} by themselves. The others do
        not lower the cost: the search applies them as steps towards rules that do. The gain on a real
        machine is measured, not taken from this page."""
    )


def _paragraph(text: str) -> Iterator[str]:
    yield from wrap(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
    yield ""


def _of(shown: int, count: int) -> str:
    return f" Shown: {shown} of {count}." if shown < count else ""


def _entry(choice: Choice, rule: NewRule, proof: Proof | None, pictures: str) -> Iterator[str]:
    assert proof is not None
    source, target = len(rule.operators_source), len(rule.operators_target)
    equation = abbreviated(rule.equation)
    image = f'<img src="{pictures}/{choice.rule}.svg" alt="{escape(equation)}">'
    yield from (f"#### `{choice.rule}`", "", "```", equation, "```", "", image, "")
    holds = f"where `{rule.conditions}`" if rule.conditions else "wherever both sides are well-typed"
    yield f"- holds: {holds}"
    yield f"- {_gained(choice)}"
    if choice.networks:
        uses = ", ".join(f"{name} ({count})" for name, count in sorted(choice.networks.items()))
        yield f"- applies in: {uses} sites"
    yield f"- proof: {_proved(proof)}"
    if rule.selection is not None:
        yield f"- ships because: {rule.selection.why}"
    yield f"- found by: {Origin.of(rule.provenance)}; {source} to {target} operators"
    yield ""


def _gained(choice: Choice) -> str:
    gain = choice.gain
    way = "right to left" if gain.backwards else "left to right"
    sizes = ", ".join(f"{name}: {type_}" for name, type_ in gain.types.items())
    known = f"; with {', '.join(gain.known)} constant" if gain.known else ""
    times = f"{gain.ratio:.1f} times less" if gain.ratio < 1000 else "almost nothing remains"
    return f"saves {gain.saved:.0%}, {way}: {times} for `{sizes}`{known}"


def _proved(proof: Proof) -> str:
    links = 0
    if proof.certificate is not None:
        _, certificate = read_stored(proof.certificate)
        links = sum(map(len, certificate.chains))
    steps = f"{links} step{'s' if links != 1 else ''}, " if links else ""
    known = load_axioms().by_name
    axioms = ", ".join(f"`{name}`" if name in known else f"`{name}` (gone)" for name in proof.axioms_used)
    second = f", also derived by {proof.confirmed_by}" if proof.confirmed_by else ""
    grade = " for all sizes" if proof.grade == "replayed" else ""
    return f"{steps}by {proof.prover} {proof.version}{grade}{second}; from {axioms}"
