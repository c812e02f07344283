"""Measures networks as they are, after each peer's optimizer, and after ours, all in one interleaved run.

    python -m benchmarks peers [NETWORK | FILE.onnx ...] [--budget 60] [--threads 1] [--seconds 60] [--out D]

A network is a name of the zoo. Every model runs in ONNX Runtime at its highest own optimisation level; ratios
are of latencies, original / optimised, with the interval of `superopt optimize`. Peers run in processes of
their own, with a limit of time; what they write is checked like ours. Writes ``peers.json``, ``peers.md`` and
``peers.svg``; a network that is in ``peers.json`` already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.models.interleaving import in_runtime, interleaved
from benchmarks.models.peers_table import Row, Standing, drawn, tabulated
from superopt import zoo
from superopt.onnx_io import LiftedModel, lift, load_model
from superopt.optimizer.check import Reference, Sampling, check_equivalence, plan_inputs
from superopt.optimizer.check.interval import compared
from superopt.optimizer.cost.runtime.session import LoadedModel, ModelFile, RuntimeRefusedError
from superopt.optimizer.pipeline.runnable import runnable_original

PEERS: Mapping[str, Sequence[str]] = {
    "onnxsim": ("-m", "onnxsim"),
    "onnxslim": ("-m", "onnxslim"),
    "onnxoptimizer": ("-m", "onnxoptimizer"),
    "onnxscript": (
        "-c",
        """import sys, onnx, onnxscript.optimizer, onnxscript.rewriter
model = onnxscript.optimizer.optimize(onnx.load(sys.argv[1]))
onnx.save(onnxscript.rewriter.rewrite(model), sys.argv[2])""",
    ),
}
"""What Python is given, before the file to read and the file to write (``pip install superopt[bench]``)."""
OURS = "superopt"

_LIMIT = 600.0
_ROUNDS = 6
_MIN_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Optimised:
    """What an optimizer wrote, in how many seconds; ``path`` is None, with the reason, where it failed."""

    name: str
    path: Path | None
    seconds: float
    note: str = ""


def main() -> int:
    """Measures, and writes the table and the plot after every network."""
    parser = argparse.ArgumentParser(prog="benchmarks peers", description=__doc__)
    parser.add_argument("networks", nargs="*", help="names of the zoo or ONNX files; default: all of the zoo")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for superopt")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="of timing for each network")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    record = out / "peers.json"
    rows = _recorded(record)
    for name in arguments.networks or zoo.names():
        if any(row.network == Path(name).stem for row in rows):
            continue
        row = measured(name, arguments.budget, arguments.threads, arguments.seconds, out)
        rows.append(row)
        record.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
        (out / "peers.md").write_text(tabulated(rows), encoding="utf-8")
        (out / "peers.svg").write_text(drawn(rows), encoding="utf-8")
        sys.stdout.write(tabulated([row]).splitlines()[2] + "\n")
        sys.stdout.flush()
    return 0


def measured(name: str, budget: float, threads: int, seconds: float, out: Path) -> Row:
    """One network under every optimizer. Files are removed again."""
    given = Path(name)
    is_file = given.suffix == ".onnx"
    original = given if is_file else out / f"{name}.onnx"
    if not is_file:
        _run("superopt", "zoo", "build", name, "-o", original)
    made = [optimised_by(peer, original, out) for peer in PEERS]
    made.append(_ours(original, out, budget, threads))
    try:
        row = _timed(given.stem if is_file else name, original, made, threads, seconds, out)
    finally:
        written = [done.path for done in made if done.path is not None]
        for path in written if is_file else [original, *written]:
            for part in out.glob(f"{path.name}*"):
                part.unlink()
    return row


def optimised_by(peer: str, original: Path, out: Path) -> Optimised:
    """What a peer makes of a model, in a process of its own."""
    target = out / f"{original.stem}-{peer}.onnx"
    started = time.monotonic()
    command = [sys.executable, *PEERS[peer], str(original), str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT)
    except subprocess.TimeoutExpired:
        return Optimised(peer, None, _LIMIT, f"not done in {_LIMIT:.0f} s")
    seconds = time.monotonic() - started
    if done.returncode or not target.exists():
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Optimised(peer, None, seconds, f"exit {done.returncode}: {reason[:120]}")
    return Optimised(peer, target, seconds)


def _ours(original: Path, out: Path, budget: float, threads: int) -> Optimised:
    target, report = out / f"{original.stem}-{OURS}.onnx", out / f"{original.stem}.json"
    started = time.monotonic()
    options = ("--budget", budget, "--threads", threads, "--report", report)
    _run("superopt", "optimize", original, "-o", target, *options)
    seconds = time.monotonic() - started
    returned = json.loads(report.read_text(encoding="utf-8"))["returned"]
    return Optimised(OURS, target, seconds, "unchanged" if returned == "original" else "")


def _timed(
    network: str, original: Path, made: Sequence[Optimised], threads: int, seconds: float, out: Path
) -> Row:
    lifted = lift(load_model(original))
    source = runnable_original(lifted, out)
    reference = _reference(lifted, source, threads)
    sample = reference.first()
    if sample is None:
        raise SystemExit(f"{network}: the original does not run on random inputs")
    standings: list[Standing] = []
    runnable: list[tuple[Optimised, Path]] = []
    for done in made:
        wrong = "" if done.path is None else why_wrong(reference, done.path, threads)
        if done.path is None or wrong:
            standings.append(Standing(done.name, None, None, None, done.seconds, done.note or wrong))
        else:
            runnable.append((done, done.path))
    models = [in_runtime(model) for model in (source, *(path for _, path in runnable))]
    times = interleaved(
        models, sample.feeds, threads=threads, seconds=seconds, rounds=_ROUNDS, least=_MIN_SAMPLES
    )
    for place, (done, _) in enumerate(runnable, start=1):
        found = compared(times[..., [0, place]])
        standings.append(Standing(done.name, found.ratio, found.low, found.high, done.seconds, done.note))
    order = [*PEERS, OURS]
    standings.sort(key=lambda standing: order.index(standing.optimizer))
    latency = compared(times[..., [0, 0]]).before
    return Row(network, len(lifted.source.proto.graph.node), latency, times[..., 0].size, tuple(standings))


def reference_of(original: Path, threads: int, out: Path) -> Reference:
    """A model with random inputs and what it computes of them; copies that are needed go into ``out``."""
    lifted = lift(load_model(original))
    return _reference(lifted, runnable_original(lifted, out), threads)


def _reference(lifted: LiftedModel, source: ModelFile, threads: int) -> Reference:
    loaded = LoadedModel(source, threads)
    return Reference(loaded, plan_inputs(lifted, loaded.inputs, {}), Sampling(), lifted.source)


def why_wrong(reference: Reference, path: Path, threads: int) -> str:
    """Why the model at the path is not equal to the reference; nothing where it is."""
    try:
        equivalence = check_equivalence(reference, LoadedModel(path, threads))
    except RuntimeRefusedError as error:
        return f"does not run: {str(error)[:120]}"
    return "" if equivalence.passed else f"not equal: {equivalence.why[:120]}"


def _recorded(record: Path) -> list[Row]:
    if not record.exists():
        return []
    return [Row.of(document) for document in json.loads(record.read_text(encoding="utf-8"))]


def _run(*command: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command[:3]))} exited with {done.returncode}: {done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
