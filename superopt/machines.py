"""Plans for several devices at the edge: clusters by what users call them, models with their plan written."""

from __future__ import annotations

from pathlib import Path

from optimizer.parallel.annotation import annotate
from optimizer.parallel.cluster import load_cluster, named_cluster, parse_cluster
from optimizer.parallel.topology import Cluster
from superopt.ir import Graph, Plan
from superopt.onnx_io import LiftedModel, LoweredModel, lower


def for_devices(lifted: LiftedModel, graph: Graph, plan: Plan, cluster: str, devices: int) -> LoweredModel:
    """The model, annotated with its plan; just the model where there is none."""
    lowered = lower(lifted, graph, Plan())
    if not plan.parallel:
        return lowered
    return annotate(lowered, graph, plan, cluster, [f"{cluster}/{number}" for number in range(devices)])


def find_cluster(cluster: str | Path) -> Cluster:
    """A cluster by its file, or by the name of a known machine, perhaps with a number of nodes.

    Raises InvalidFileError for a description with a mistake, InvalidOptionError for an unknown name.
    """
    path = Path(cluster)
    is_file = path.is_file() or path.suffix.lower() in (".yaml", ".yml", ".json")
    return load_cluster(path) if is_file else named_cluster(str(cluster))


def described_cluster(path: str | None) -> Cluster | None:
    """The cluster of a file that came from outside: it names no other files."""
    return None if path is None else parse_cluster(Path(path).read_text(encoding="utf-8"), "cluster")
