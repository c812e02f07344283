"""The original and what was made of it, run on the same inputs, compared, and timed in the same rounds.

A process of its own, because native code of others may end it:
``python -m benchmarks.real.timing REQUEST.json`` prints its answer as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.models.interleaving import Opened, in_runtime, interleaved
from benchmarks.models.openvino_runs import OpenVinoRun, in_openvino
from benchmarks.models.peers import reference_of
from superopt.optimizer.check.interval import compared
from superopt.optimizer.cost.runtime.session import Array, LoadedModel

OPENVINO = "openvino"

_ROUNDS = 6
_MIN_SAMPLES = 3
_TOLERANCE = 1e-3
"""Of the largest number of an output: what is further apart is no longer the same model."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be timed: ``original``, and by name what was made of it; OpenVINO reads the original.

    ``sized`` is the original with the sizes of inputs that it is run at.
    """

    original: str
    sized: str
    made: Mapping[str, str]
    threads: int
    seconds: float
    openvino: bool


@dataclass(frozen=True, slots=True)
class Ratio:
    """Latency of the original over that of a model, with its interval; or why there is none."""

    ratio: float | None
    low: float | None
    high: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Microseconds of a run of the original, how many were timed, and a ratio for each other."""

    microseconds: float
    runs: int
    ratios: Mapping[str, Ratio]

    @staticmethod
    def of(document: Mapping[str, object]) -> Answer:
        """An answer from its JSON."""
        ratios = cast("Mapping[str, Mapping[str, object]]", document["ratios"])
        return Answer(
            cast("float", document["microseconds"]),
            cast("int", document["runs"]),
            {name: Ratio(**found) for name, found in ratios.items()},  # pyright: ignore[reportArgumentType]
        )


def timed(request: Request) -> Answer:
    """Compares and times. Raises RuntimeRefusedError when the original cannot be timed."""
    original = Path(request.original)
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        feeds = _feeds(Path(request.sized), request.threads, Path(directory))
    loaded = LoadedModel(original, request.threads)
    names = [port.name for port in loaded.outputs]
    expected = dict(zip(names, loaded.run(feeds), strict=True))
    failed: dict[str, Ratio] = {}
    models: dict[str, Opened] = {}
    for name, path in request.made.items():
        why = _why_not(lambda path=path: _in_runtime(Path(path), feeds, request.threads), expected)
        models[name] = in_runtime(Path(path))
        if why:
            failed[name] = Ratio(None, None, None, why)
    if request.openvino:
        why = _why_not(lambda: _in_openvino(original, feeds, request.threads, names), expected)
        models[OPENVINO] = in_openvino(original)
        if why:
            failed[OPENVINO] = Ratio(None, None, None, why)
    runnable = [name for name in models if name not in failed]
    times = interleaved(
        [in_runtime(original), *(models[name] for name in runnable)],
        feeds,
        threads=request.threads,
        seconds=request.seconds,
        rounds=_ROUNDS,
        least=_MIN_SAMPLES,
    )
    ratios = dict(failed)
    for place, name in enumerate(runnable, start=1):
        found = compared(times[..., [0, place]])
        ratios[name] = Ratio(found.ratio, found.low, found.high, "")
    return Answer(compared(times[..., [0, 0]]).before, times[..., 0].size, ratios)


def _feeds(sized: Path, threads: int, directory: Path) -> Mapping[str, Array]:
    sample = reference_of(sized, threads, directory).first()
    if sample is None:
        raise SystemExit("the original does not run on random inputs")
    return sample.feeds


def _why_not(run: Callable[[], Mapping[str, object]], expected: Mapping[str, object]) -> str:
    """Why a model cannot be timed or is another one; nothing where it can."""
    try:
        found = run()
    except Exception as error:  # noqa: BLE001 - runtimes raise in many ways, and the others are to be timed
        return f"does not run: {' '.join(str(error).split())[:160]}"
    return next((why for name, wanted in expected.items() if (why := _apart(name, wanted, found[name]))), "")


def _in_runtime(path: Path, feeds: Mapping[str, Array], threads: int) -> Mapping[str, object]:
    loaded = LoadedModel(path, threads)
    return dict(zip([port.name for port in loaded.outputs], loaded.run(feeds), strict=True))


def _in_openvino(
    path: Path, feeds: Mapping[str, Array], threads: int, names: Sequence[str]
) -> Mapping[str, object]:
    run = OpenVinoRun(path, feeds, threads)
    return {name: run.output(name) for name in names}


def _apart(name: str, wanted: object, found: object) -> str:
    left, right = np.asarray(wanted), np.asarray(found)
    if left.shape != right.shape:
        return f"not equal: output {name} has the shape {right.shape}, not {left.shape}"
    if left.dtype.kind != "f":
        return "" if (left == right).all() else f"not equal: output {name}"
    largest = max(float(np.abs(left[np.isfinite(left)]).max(initial=0.0)), 1e-30)
    if (np.isfinite(left) != np.isfinite(right)).any():
        return f"not equal: output {name} has other numbers that are not finite"
    finite = np.isfinite(left)
    difference = np.abs(left.astype(np.float64) - right.astype(np.float64))
    error = float(difference[finite].max(initial=0.0)) / largest
    return (
        ""
        if error <= _TOLERANCE
        else f"not equal: output {name} differs by {error:.2g} of its largest number"
    )


def answer() -> int:
    """Answers the request in a file."""
    request = Request(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    sys.stdout.write(json.dumps(asdict(timed(request))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(answer())
