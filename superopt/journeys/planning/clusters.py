"""Look-up of clusters by file or by the name of a known machine."""

from __future__ import annotations

from pathlib import Path

from superopt.optimizer.parallel.documents.cluster import (
    load_cluster,
    named_cluster,
    named_description,
    parse_cluster,
)
from superopt.optimizer.parallel.topology import Cluster


def find_cluster(cluster: str | Path) -> Cluster:
    """A cluster by its file, or by the name of a known machine, optionally with a number of nodes.

    Raises InvalidFileError for an invalid description, InvalidOptionError for an unknown name.
    """
    return load_cluster(Path(cluster)) if _is_file(Path(cluster)) else named_cluster(str(cluster))


def cluster_if_named(cluster: str | Path | None) -> Cluster | None:
    """As ``find_cluster``; None where no cluster is named."""
    return None if cluster is None else find_cluster(cluster)


def description_of(cluster: str) -> Path | bytes:
    """A portable description of a cluster: its file, or the text for a known machine.

    Raises InvalidOptionError for an unknown name.
    """
    return Path(cluster) if _is_file(Path(cluster)) else named_description(cluster).encode()


def described_cluster(path: str | None) -> Cluster | None:
    """The cluster of an untrusted file, which may not refer to other files."""
    return None if path is None else parse_cluster(Path(path).read_text(encoding="utf-8"), "cluster")


def _is_file(path: Path) -> bool:
    return path.is_file() or path.suffix.lower() in (".yaml", ".yml", ".json")
