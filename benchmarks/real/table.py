"""The result of ``benchmarks real`` for readers: tables in Markdown, and a plot, in the documentation."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.models.dots import Dot, Kind, Line, dot_plot
from benchmarks.models.peers_table import Standing
from benchmarks.real.cells import OTHERS, OURS, Cell, Gain
from benchmarks.real.listed import DEVELOPMENT, HELD_OUT, MODELS, RealModel
from benchmarks.real.listed import Kind as Set
from benchmarks.real.origins import Exported, GivenFile, Packaged
from superopt.equations import abbreviated

README, PAGE, PLOT = Path("README.md"), Path("docs/real.md"), Path("docs/real.svg")
HEADING = "### Real models"
RESULTS = "## Results"

_KNOWN: Mapping[str, RealModel] = {model.name: model for model in MODELS}
_SETS: Mapping[Set, str] = {"held-out": "held out", "development": "development", "given": "given"}
_PREFERRED = ("fixed", "exported", "dim")
_SHORT = (
    "set",
    "model",
    "exporter",
    "ms",
    *OTHERS,
    OURS,
    "its 98% interval",
    "gained by",
    "unknown",
    "at peak",
)
_LONG = (
    *(
        "model",
        "form",
        "unknown",
        "ms",
        *OTHERS,
        OURS,
        "its interval",
        "outcome",
        "seconds",
        "at peak",
        "why",
    ),
)
_OPERATOR = re.compile(r"([a-z_][a-z_0-9]*)\s*(?=[\[(])")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_RULES = 2
_LEAST_SHARE = 0.01
"""The summary names the rules with the largest gain, from this share of the original's time on."""


def table(cells: Sequence[Cell]) -> str:
    """Every row in Markdown; below, the rules of each, and why others have no ratio."""
    lines = [_row(_LONG), _row("---" for _ in _LONG), *(_row(_long(cell)) for cell in cells)]
    rules = [
        f"- {cell.model}, {cell.form}: {gain.microseconds:,.1f} us in {gain.times} places: "
        f"`{abbreviated(gain.equation)}`"
        for cell in cells
        for gain in _paying(cell)
    ]
    notes = [
        f"- {cell.model}, {cell.form}, {found.optimizer}: {found.note}"
        for cell in cells
        for found in cell.standings
        if found.ratio is None and found.note
    ]
    return "\n".join([*lines, *_part(rules), *_part(notes)]) + "\n"


def summary(cells: Sequence[Cell]) -> str:
    """A row for each model, in the form with the least left open, by set and speed-up, then the means."""
    rows = _chosen(cells)
    lines = [_row(_SHORT), _row("---" for _ in _SHORT), *(_row(_short(cell)) for cell in rows)]
    for kind in _SETS:
        of_kind = [cell for cell in rows if _kind(cell) == kind]
        lines += [_row(_means(kind, of_kind))] if of_kind else []
    return "\n".join(lines) + "\n"


def listed() -> str:
    """The models with their origin, exporter and sizes, in Markdown."""
    heads = ("set", "model", "from", "exporter", "sizes")
    rows = (
        (
            *(_SETS[model.kind], model.name, _origin(model), model.exporter),
            ", ".join(f"{name} {'x'.join(map(str, of)) or 'scalar'}" for name, of in model.shapes.items()),
        )
        for model in (*HELD_OUT, *DEVELOPMENT)
    )
    return "\n".join([_row(heads), _row("---" for _ in heads), *map(_row, rows)]) + "\n"


def _origin(model: RealModel) -> str:
    match model.origin:
        case Packaged(requirement):
            return requirement.replace("==", " ")
        case Exported(weights=Packaged(requirement)):
            return f"weights of {requirement.replace('==', ' ')}"
        case Exported(script=script):
            return f"`benchmarks/real/{script}`"
        case GivenFile(path):
            return str(path)


def drawn(cells: Sequence[Cell]) -> str:
    """The summary as a plot in SVG: a line for each model below one for its set, with its share at peak."""
    lines: list[Line] = []
    for kind, rows in itertools.groupby(_chosen(cells), _kind):
        lines.append(Line(f"{_SETS[kind]}:", ()))
        lines += [Line(cell.model, tuple(_dots(cell)), _percent(cell.at_peak)) for cell in rows]
    legend: tuple[tuple[Kind, str], ...] = (
        ("main", f"{OURS} (98% interval)"),
        ("far", "openvino"),
        ("other", ", ".join(OTHERS[:-1])),
    )
    title = "Latency of the original over that of each; right: share of the rest at peak"
    return dot_plot(title, lines, legend=legend)


def publish(cells: Sequence[Cell], folder: Path) -> None:
    """Writes the summary into the README of a folder, all rows into its page, and the plot."""
    for path, heading, plot, rows in (
        (folder / README, HEADING, PLOT, summary(cells)),
        (folder / PAGE, RESULTS, PLOT.relative_to(PAGE.parent), f"{_settings(cells)}\n\n{table(cells)}"),
    ):
        text = f"![speed-ups of real models]({plot})\n\n{rows}"
        path.write_text(replaced(path.read_text(encoding="utf-8"), heading, text), encoding="utf-8")
    (folder / PLOT).write_text(drawn(cells), encoding="utf-8")


def replaced(page: str, heading: str, text: str) -> str:
    """A page with a section replaced from its first table or picture on, up to the next heading; raises
    ValueError where the page has no such section."""
    before, found, rest = page.partition(f"{heading}\n")
    if not found:
        raise ValueError(f"expected a section {heading!r}, the page has none")
    section, mark, after = _split(rest)
    kept = re.split(r"^(?:!\[|\|)", section, maxsplit=1, flags=re.MULTILINE)[0].rstrip("\n")
    return f"{before}{found}{kept}\n\n{text}{mark and chr(10)}{mark}{after}"


def _split(rest: str) -> tuple[str, str, str]:
    """A section, the mark of the next heading, what follows."""
    heading = re.search(r"^#{2,3} ", rest, re.MULTILINE)
    if heading is None:
        return rest, "", ""
    return rest[: heading.start()], heading.group(), rest[heading.end() :]


def _settings(cells: Sequence[Cell]) -> str:
    found = dict.fromkeys(f"{c.budget:g} s for the search, threads: {c.threads}" for c in cells)
    return f"Measured with {'; '.join(found)}."


def brief(equation: str) -> str:
    """An equation by its operators, without operands, attributes and condition: ``relu conv => conv``; outer
    operators come first."""
    source, _, target = equation.partition(" where ")[0].partition("=>")
    return f"{_operators(source)} → {_operators(target)}"


def _operators(side: str) -> str:
    text, bare = side, ""
    while bare != text:
        bare, text = text, _BRACKETS.sub("", text)
    return " ".join(_OPERATOR.findall(text)) or "operand"


def _chosen(cells: Sequence[Cell]) -> list[Cell]:
    forms: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        forms.setdefault(cell.model, {})[cell.form] = cell
    found = [next(of[form] for form in _PREFERRED if form in of) for of in forms.values()]
    return sorted(found, key=lambda cell: (list(_SETS).index(_kind(cell)), -(_ratio(cell, OURS) or 0.0)))


def _short(cell: Cell) -> Iterator[str]:
    model = _KNOWN.get(cell.model)
    yield from (_SETS[_kind(cell)], cell.model, "" if model is None else model.exporter)
    yield "" if cell.microseconds is None else f"{cell.microseconds / 1000:.2f}"
    yield from (_written(cell.standing(name), 2) for name in OTHERS)
    yield f"**{_written(cell.standing(OURS), 2)}**"
    yield _span(cell.standing(OURS), 2)
    least = _LEAST_SHARE * (cell.microseconds or 0.0)
    paying = [gain for gain in _paying(cell) if gain.microseconds >= least]
    yield "; ".join(brief(gain.equation) for gain in paying[:_RULES])
    yield from (_unknown(cell), _percent(cell.at_peak))


def _means(kind: Set, cells: Sequence[Cell]) -> Iterator[str]:
    yield from (_SETS[kind], "geometric mean", "", "")
    for name in (*OTHERS, OURS):
        logs = [math.log(_ratio(cell, name) or 1.0) for cell in cells]
        mean = f"{math.exp(sum(logs) / len(logs)):.2f}"
        yield f"**{mean}**" if name == OURS else mean
    yield from ("", "", "", "")


def _long(cell: Cell) -> Iterator[str]:
    ours = cell.standing(OURS)
    yield from (cell.model, cell.form, _unknown(cell))
    yield "" if cell.microseconds is None else f"{cell.microseconds / 1000:.3f}"
    yield from (_written(cell.standing(name), 3) for name in (*OTHERS, OURS))
    yield from (_span(ours, 3), cell.outcome, "" if ours is None else f"{ours.seconds:.1f}")
    yield from (_percent(cell.at_peak), cell.why.replace("|", "/"))


def _dots(cell: Cell) -> Iterator[Dot]:
    for found in cell.standings:
        if found.ratio is None:
            continue
        title = f"{found.optimizer}: {found.ratio:.3f}"
        if found.optimizer == OURS:
            span = None if found.low is None or found.high is None else (found.low, found.high)
            yield Dot(found.ratio, "main", title, span)
        else:
            yield Dot(found.ratio, "far" if found.optimizer == "openvino" else "other", title)


def _kind(cell: Cell) -> Set:
    model = _KNOWN.get(cell.model)
    return "given" if model is None else model.kind


def _paying(cell: Cell) -> list[Gain]:
    return [gain for gain in cell.gains if gain.microseconds > 0]


def _unknown(cell: Cell) -> str:
    contents = cell.contents
    if contents is None or not contents.nodes:
        return ""
    share = f"{contents.unknown} of {contents.nodes}"
    return f"{share}, {contents.quantised} quantised" if contents.quantised else share


def _ratio(cell: Cell, optimizer: str) -> float | None:
    found = cell.standing(optimizer)
    return None if found is None else found.ratio


def _written(found: Standing | None, places: int) -> str:
    if found is None:
        return ""
    return "none" if found.ratio is None else f"{found.ratio:.{places}f}"


def _span(found: Standing | None, places: int) -> str:
    if found is None or found.low is None or found.high is None:
        return ""
    return f"{found.low:.{places}f} to {found.high:.{places}f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f}%"


def _part(lines: Sequence[str]) -> list[str]:
    return ["", *lines] if lines else []


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
