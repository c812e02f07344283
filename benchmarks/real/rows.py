"""One row of ``benchmarks real``: a model in one form, optimised by all, and timed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias, cast

import onnx

from benchmarks.models.peers import Optimised, optimised_by
from benchmarks.models.peers_table import Standing
from benchmarks.real.cells import OTHERS, OURS, Cell, Contents, Gain, Key
from benchmarks.real.listed import RealModel
from benchmarks.real.sizes import Shapes, declared_shapes, fixed, open_dimensions
from benchmarks.real.timing import OPENVINO, Answer, Ratio, Request

Json: TypeAlias = Mapping[str, object]

FORMS = ("exported", "dim", "fixed")

_PATIENCE = 3.0
"""Times the budget, and a minute, after which superopt is said not to end."""

_TIMING_LIMIT = 900.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Where files go, seconds for superopt, threads, seconds of timing."""

    out: Path
    budget: float
    threads: int
    seconds: float

    def key(self, model: str, form: str) -> Key:
        """The key of a row that is measured like this."""
        return model, form, self.budget, self.threads


@dataclass(frozen=True, slots=True)
class Ours:
    """What superopt made: the file, or None where it failed; outcome, why, what it understood and gained."""

    path: Path | None
    outcome: str
    why: str
    seconds: float
    contents: Contents | None = None
    gains: tuple[Gain, ...] = ()


def has_form(path: Path, shapes: Shapes, form: str) -> bool:
    """Whether the model differs in this form from how it was exported."""
    return form == FORMS[0] or bool(open_dimensions(path, declared_shapes(path, shapes)))


def cell_of(model: RealModel, path: Path, form: str, settings: Settings) -> Cell:
    """Optimises and times one model in one form."""
    shapes = declared_shapes(path, model.shapes)
    with tempfile.TemporaryDirectory(prefix=f"{model.name}-", dir=settings.out) as name:
        directory = Path(name)
        sized = fixed(path, shapes, directory / "sized.onnx")
        original = sized if form == "fixed" else path
        sizes = open_dimensions(path, shapes) if form == "dim" else {}
        ours = _ours(original, directory, sizes, settings)
        peers = {name: _peer(name, original, directory) for name in OTHERS if name != OPENVINO}
        made = {name: done.path for name, done in peers.items() if done.path is not None}
        if ours.path is not None:
            made[OURS] = ours.path
        answer = _timed(original, sized, made, directory, settings)
    standings = [
        *(_standing(name, done, answer) for name, done in peers.items()),
        _standing(OPENVINO, Optimised(OPENVINO, None, 0.0, _missing(OPENVINO)), answer),
        _standing(OURS, Optimised(OURS, ours.path, ours.seconds, ""), answer),
    ]
    failure = answer if isinstance(answer, str) else standings[-1].note
    is_wrong = ours.outcome != "error" and bool(failure)
    return Cell(
        *settings.key(model.name, form),
        sizes=", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items()),
        outcome="error" if is_wrong else ours.outcome,
        why=f"{failure} (superopt said {ours.outcome}: {ours.why})" if is_wrong else ours.why,
        contents=ours.contents,
        gains=ours.gains,
        microseconds=None if isinstance(answer, str) else answer.microseconds,
        standings=tuple(standings),
    )


def _ours(original: Path, directory: Path, sizes: Mapping[str, int], settings: Settings) -> Ours:
    out, report = directory / "ours" / "model.onnx", directory / "report.json"
    out.parent.mkdir()
    dims = [word for name, size in sizes.items() for word in ("--dim", f"{name}={size}")]
    options = ("--budget", settings.budget, "--threads", settings.threads, "--report", report, *dims)
    command = [sys.executable, "-m", "superopt", "optimize", original, "-o", out, *options]
    limit = _PATIENCE * settings.budget + 60
    began = time.monotonic()
    try:
        done = subprocess.run(
            [*map(str, command)], capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return Ours(None, "error", f"no end within {limit:.0f} s", limit)
    seconds = time.monotonic() - began
    if done.returncode or not report.exists():
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Ours(None, "error", f"exit {done.returncode}: {reason[:300]}", seconds)
    found = json.loads(report.read_text(encoding="utf-8"))
    return Ours(*(out, found["returned"], found["why"], seconds), _contents(original, found), _gains(found))


def _contents(original: Path, report: Json) -> Contents:
    names = [node.op_type for node in onnx.load(original, load_external_data=False).graph.node]
    quantised = sum(map(_is_quantised, names))
    opaque = cast("Sequence[Json]", cast("Json", report["model"])["opaque"])
    explanation = cast("Json", report["explanation"] or {})
    kernels = cast("Json", cast("Json", explanation.get("kernels", {})).get("after", {}))
    guessed = cast("Json", report["sizes"])["guessed"]
    return Contents(
        nodes=len(names) - names.count("Constant") - quantised,
        unknown=sum(not _is_quantised(str(node["op_type"])) for node in opaque),
        quantised=quantised,
        flops=None if guessed else cast("int | None", kernels.get("flops")),
        peak=cast("float | None", kernels.get("peak")),
    )


def _is_quantised(name: str) -> bool:
    """Whether an operator is for integers in place of numbers: QLinearConv, MatMulInteger, QuantizeLinear."""
    return name.startswith("QLinear") or name.endswith("Integer") or "Quantize" in name or "quantize" in name


def _gains(report: Json) -> tuple[Gain, ...]:
    explanation = cast("Json", report["explanation"] or {})
    gains = cast("Sequence[Json]", explanation.get("gains", ()))
    return tuple(
        Gain(str(gain["equation"]), cast("int", gain["times"]), round(cast("float", gain["predicted"]), 3))
        for gain in gains
    )


def _peer(name: str, original: Path, directory: Path) -> Optimised:
    if _missing(name):
        return Optimised(name, None, 0.0, _missing(name))
    own = directory / name
    own.mkdir()
    copy = own / "model.onnx"
    shutil.copyfile(original, copy)
    return optimised_by(name, copy, own)


def _missing(package: str) -> str:
    return "" if find_spec(package) else "not installed: pip install superopt[bench]"


def _timed(
    original: Path, sized: Path, made: Mapping[str, Path], directory: Path, settings: Settings
) -> Answer | str:
    """The ratios; the reason where there are none."""
    request = Request(
        str(original),
        str(sized),
        {name: str(path) for name, path in made.items()},
        settings.threads,
        settings.seconds,
        openvino=not _missing(OPENVINO),
    )
    asked = directory / "request.json"
    asked.write_text(json.dumps(asdict(request)), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.real.timing", str(asked)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMING_LIMIT)
    except subprocess.TimeoutExpired:
        return f"timing did not end within {_TIMING_LIMIT:.0f} s"
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        return f"cannot be timed: {reason[:300]}"
    return Answer.of(json.loads(done.stdout.splitlines()[-1]))


def _standing(name: str, done: Optimised, answer: Answer | str) -> Standing:
    none = Ratio(None, None, None, "" if isinstance(answer, str) else done.note)
    found = none if isinstance(answer, str) else answer.ratios.get(name, none)
    return Standing(name, found.ratio, found.low, found.high, done.seconds, found.why)
