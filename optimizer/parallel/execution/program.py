"""Per-device programs on disk (ONNX models of segments and a manifest of transfers), and their execution."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np

from superopt.domains import Array
from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.ir.graph import Graph, Input, Value
from superopt.onnx_io import LiftedModel, build_model
from superopt.onnx_io.emit.folding import Folder
from superopt.onnx_io.protos import dtype_of
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.communication import CollectiveKind, CollectiveStep
from superopt.optimizer.parallel.execution.exchange import Exchange, Held, gathered
from superopt.optimizer.parallel.execution.executor import Execution, box_of
from superopt.optimizer.parallel.execution.host import HostMachine
from superopt.optimizer.parallel.placement import Placement, regions_of
from superopt.optimizer.parallel.shards import Delivery, Program, Segment
from superopt.optimizer.parallel.tasks import shape_of, tensor_of

MANIFEST = "manifest.json"


class PlacementEntry(TypedDict):
    """A placement, as in ``optimizer.parallel.placement``."""

    degrees: list[int]
    partial: int
    copies: int
    devices: list[int]


class FeedEntry(TypedDict):
    """An input of a segment: a box of an input of the model, or the device's part of a tensor."""

    label: str
    tensor: str
    region: list[list[int]]
    placement: PlacementEntry | None


class SegmentEntry(TypedDict):
    """A model that a device runs; its outputs are the device's parts of the tensors that it computes."""

    device: int
    model: str
    feeds: list[FeedEntry]
    outputs: list[str]


class StepEntry(TypedDict):
    """One collective or send."""

    kind: str
    group: list[int]
    bytes: int
    before: list[list[list[int]] | None]
    after: list[list[list[int]] | None]
    moved_bytes: int


class DeliveryEntry(TypedDict):
    """A tensor moved from one placement to another."""

    tensor: str
    shape: list[int]
    have: PlacementEntry
    want: PlacementEntry
    steps: list[StepEntry]


class ProgramEntry(TypedDict, total=False):
    """A segment or a delivery."""

    run: SegmentEntry
    deliver: DeliveryEntry


class OutputEntry(TypedDict):
    """Final placement of a model output. An output that is not computed is an input, or a file."""

    tensor: str
    shape: list[int]
    placement: PlacementEntry | None
    file: str | None


class Manifest(TypedDict):
    """The file ``manifest.json``."""

    schema: int
    inputs: list[str]
    entries: list[ProgramEntry]
    outputs: list[OutputEntry]


def save_program(program: Program, lifted: LiftedModel, graph: Graph, directory: Path) -> None:
    """Writes the segments' models and the manifest to a new directory, atomically. The program is that of
    ``graph``, a rewritten form of the lifted one. Raises InvalidOptionError if the directory exists or cannot
    be written."""
    target = directory.absolute()
    if target.exists() or not target.parent.is_dir():
        raise InvalidOptionError(f"{directory}: expected a directory that does not exist, in one that does")
    try:
        part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
        try:
            _write(program, lifted, graph, part)
            part.chmod(0o755)
            part.replace(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise InvalidOptionError(f"{directory}: cannot be written: {error.strerror or error}") from error


def run_program(directory: Path, inputs: Mapping[str, Array]) -> Execution:
    """Runs a program written by ``save_program`` on the host, in manifest order. Raises InvalidFileError for
    another directory, InvalidOptionError for a missing input."""
    try:
        manifest: Manifest = json.loads((directory / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise InvalidFileError(f"{directory / MANIFEST}: not a program manifest: {error}") from error
    missing = [name for name in manifest["inputs"] if name not in inputs]
    if missing:
        raise InvalidOptionError(f"inputs: expected {', '.join(manifest['inputs'])}; missing: {missing[0]}")
    running = _Running(directory, inputs)
    for entry in manifest["entries"]:
        if "run" in entry:
            running.run(entry["run"])
        if "deliver" in entry:
            running.deliver(entry["deliver"])
    outputs = tuple(running.output(entry) for entry in manifest["outputs"])
    exchange = running.exchange
    return Execution(outputs, dict(exchange.sent), {}, exchange.reductions)


def _write(program: Program, lifted: LiftedModel, graph: Graph, directory: Path) -> None:
    names = _Names(lifted)
    folder = Folder(graph, lifted.weight)
    counts: dict[int, int] = {}
    entries: list[ProgramEntry] = []
    for entry in program.entries:
        if isinstance(entry, Delivery):
            entries.append({"deliver": _delivery(entry, names)})
            continue
        number = counts[entry.device] = counts.get(entry.device, -1) + 1
        path = f"device-{entry.device:03}/segment-{number:03}.onnx"
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).write_bytes(_model(entry, lifted, graph, folder))
        entries.append({"run": _segment(entry, path, names)})
    inputs = [graph[node].operator for node in graph.inputs]
    manifest: Manifest = {
        "schema": 1,
        "inputs": [operator.label for operator in inputs if isinstance(operator, Input)],
        "entries": entries,
        "outputs": [
            {
                "tensor": names[output.value],
                "shape": list(output.shape),
                "placement": None if output.placement is None else _entry(output.placement),
                "file": _stored(output.value, number, graph, folder, directory),
            }
            for number, output in enumerate(program.outputs)
        ],
    }
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1))


def _stored(value: Value, number: int, graph: Graph, folder: Folder, directory: Path) -> str | None:
    """The file of an output that depends only on weights; None for others."""
    if value.node not in graph.weight_only:
        return None
    np.save(directory / f"output-{number:03}.npy", folder.value(value))
    return f"output-{number:03}.npy"


class _Names:
    """Names of tensors: those of the model, else numbers."""

    def __init__(self, lifted: LiftedModel) -> None:
        self._names = lifted.names

    def __getitem__(self, value: Value) -> str:
        return self._names.get(value, f"superopt/tensor_{value.node}_{value.port}")


def _model(segment: Segment, lifted: LiftedModel, graph: Graph, folder: Folder) -> bytes:
    def content(label: str) -> Array:
        value, region = segment.weights[label]
        if label in segment.zeros:
            type_ = tensor_of(graph, value)
            return np.zeros([stop - start for start, stop in region], dtype_of(type_.element))
        return np.asarray(box_of(folder.value(value), region), order="C")

    return build_model(segment.graph, content, source=lifted.source)


def _segment(segment: Segment, path: str, names: _Names) -> SegmentEntry:
    return {
        "device": segment.device,
        "model": path,
        "feeds": [
            {
                "label": feed.label,
                "tensor": names[feed.value],
                "region": _listed(feed.region),
                "placement": None if feed.placement is None else _entry(feed.placement),
            }
            for feed in segment.feeds
        ],
        "outputs": [names[value] for value in segment.made],
    }


def _delivery(delivery: Delivery, names: _Names) -> DeliveryEntry:
    return {
        "tensor": names[delivery.value],
        "shape": list(shape_of(delivery.type)),
        "have": _entry(delivery.have),
        "want": _entry(delivery.want),
        "steps": [
            {
                "kind": step.kind.value,
                "group": list(step.group),
                "bytes": step.bytes,
                "before": [None if region is None else _listed(region) for region in step.before],
                "after": [None if region is None else _listed(region) for region in step.after],
                "moved_bytes": step.moved,
            }
            for step in delivery.steps
        ],
    }


def _listed(region: Region) -> list[list[int]]:
    return [[start, stop] for start, stop in region]


def _entry(placement: Placement) -> PlacementEntry:
    return {
        "degrees": list(placement.degrees),
        "partial": placement.partial,
        "copies": placement.copies,
        "devices": list(placement.devices),
    }


def _placement(entry: PlacementEntry) -> Placement:
    return Placement(tuple(entry["degrees"]), tuple(entry["devices"]), entry["partial"], entry["copies"])


class _Running:
    def __init__(self, directory: Path, inputs: Mapping[str, Array]) -> None:
        self._directory = directory
        self._inputs = inputs
        self._made: dict[str, dict[int, Array]] = {}
        self._delivered: dict[tuple[str, Placement], Mapping[int, Array]] = {}
        self.exchange = Exchange(HostMachine())

    def run(self, entry: SegmentEntry) -> None:
        device = entry["device"]
        model = LoadedModel(self._directory / entry["model"], threads=1)
        present = {port.name for port in model.inputs}
        feeds = {
            feed["label"]: np.asarray(self._fed(feed, device), order="C")
            for feed in entry["feeds"]
            if feed["label"] in present
        }
        for name, output in zip(entry["outputs"], model.run(feeds), strict=True):
            self._made.setdefault(name, {})[device] = np.asarray(output)

    def deliver(self, entry: DeliveryEntry) -> None:
        have, want = _placement(entry["have"]), _placement(entry["want"])
        held = Held(have, tuple(entry["shape"]), self._made.get(entry["tensor"]) or self._given(entry, have))
        steps = [_step(step) for step in entry["steps"]]
        self._delivered[entry["tensor"], want] = self.exchange.moved(held, want, steps).shards

    def _given(self, entry: DeliveryEntry, have: Placement) -> Mapping[int, Array]:
        """The parts of an input of the model."""
        array = self._inputs[entry["tensor"]]
        regions = regions_of(have, tuple(entry["shape"]))
        return {device: box_of(array, region) for device, region in regions.items()}

    def output(self, entry: OutputEntry) -> Array:
        name = entry["tensor"]
        if entry["file"] is not None:
            return np.load(self._directory / entry["file"])
        if entry["placement"] is None:
            return self._inputs[name]
        place = _placement(entry["placement"])
        shards = self._delivered.get((name, place), self._made[name])
        return gathered(place, tuple(entry["shape"]), shards.__getitem__)

    def _fed(self, feed: FeedEntry, device: int) -> Array:
        if feed["placement"] is None:
            return box_of(self._inputs[feed["tensor"]], _region(feed["region"]))
        delivered = self._delivered.get((feed["tensor"], _placement(feed["placement"])))
        return (self._made[feed["tensor"]] if delivered is None else delivered)[device]


def _region(listed: Sequence[Sequence[int]]) -> Region:
    return tuple((start, stop) for start, stop in listed)


def _step(entry: StepEntry) -> CollectiveStep:
    return CollectiveStep(
        CollectiveKind(entry["kind"]),
        tuple(entry["group"]),
        entry["bytes"],
        tuple(None if region is None else _region(region) for region in entry["before"]),
        tuple(None if region is None else _region(region) for region in entry["after"]),
        entry["moved_bytes"],
    )
