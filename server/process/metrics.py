"""Prometheus metrics: requests of this process, and state of the service read from the database.

Requests are counted in the process that serves them. Jobs, workers and rules are read from the database at
each scrape, so that all servers report the same values and counts survive restarts. Label values come from
closed sets: route templates, methods, states; and one value per live worker (host and process id).
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from itertools import accumulate
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from superopt.errors import MissingServiceError
from superopt.substitution_db import Database
from superopt.substitution_db.jobs.activity import DURATION_BOUNDS, Durations
from superopt.substitution_db.store.records import JobState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LATENCIES = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_Family: TypeAlias = "GaugeMetricFamily | HistogramMetricFamily"
_METHODS = frozenset(("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"))


class Metrics:
    """The metrics of one application."""

    def __init__(self, database: Database) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_Shared(database))
        labels = ("method", "route", "status")
        self._requests = Counter(
            "superopt_http_requests", "Finished requests.", labels, registry=self._registry
        )
        self._seconds = Histogram(
            "superopt_http_request_seconds",
            "Seconds until the response started.",
            labels,
            buckets=_LATENCIES,
            registry=self._registry,
        )
        self._open = Gauge("superopt_http_requests_open", "Requests in progress.", registry=self._registry)

    def began(self) -> None:
        """Records the start of a request."""
        self._open.inc()

    def ended(self, method: str, route: str, status: int, seconds: float) -> None:
        """Records the end of a request; ``seconds`` is the time until its response started."""
        self._open.dec()
        labels = (method if method in _METHODS else "other", route, str(status))
        self._requests.labels(*labels).inc()
        self._seconds.labels(*labels).observe(seconds)

    def text(self) -> bytes:
        """All metrics, in the text format. Raises MissingServiceError when the database does not answer."""
        return generate_latest(self._registry)


class _Shared(Collector):
    """Collector of metrics read from the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> Iterable[_Family]:
        """No metric families at registration, so that the database is not read then."""
        return ()

    def collect(self) -> Iterable[_Family]:
        """The metric families, read from the database; only ``database up`` = 0 when it is not available."""
        versions = {(version("superopt"), platform.python_version()): 1}
        yield _gauge("superopt_info", "The version.", versions, "version", "python")
        try:
            families = tuple(self._read())
        except MissingServiceError:
            families = ()
        yield _gauge("superopt_database_up", "Whether the database is available.", {(): int(bool(families))})
        yield from families

    def _read(self) -> Iterable[_Family]:
        database, activity = self._database, self._database.activity
        jobs = {(str(state),): count for state, count in database.jobs.counts().items()}
        yield _gauge("superopt_jobs", "Stored optimizations.", jobs, "state")
        waiting = {(): activity.waiting_seconds()}
        yield _gauge(
            "superopt_oldest_waiting_seconds", "Age of the oldest queued optimization in seconds.", waiting
        )
        yield _durations(activity.durations())
        workers = activity.workers()
        ages = {(sign.worker,): sign.seconds for sign in workers}
        yield _gauge(
            "superopt_worker_seen_seconds", "Seconds since a worker's last heartbeat.", ages, "worker"
        )
        busy = {(sign.worker,): int(sign.job_id is not None) for sign in workers}
        yield _gauge("superopt_worker_busy", "Whether a worker runs a job.", busy, "worker")
        rules = {(str(status),): count for status, count in activity.rules().items()}
        yield _gauge("superopt_rules", "Stored rules.", rules, "status")
        in_force = database.library.in_force()
        if in_force is not None:
            number = {(): in_force.number}
            yield _gauge("superopt_library_version", "Library version used by new jobs.", number)
            yield _gauge("superopt_library_rules", "Rules in that library version.", {(): in_force.rules})
        free = {(): database.blobs.free_bytes()}
        yield _gauge("superopt_blob_free_bytes", "Free disk space for models in bytes.", free)


def _gauge(name: str, text: str, samples: Mapping[tuple[str, ...], float], *labels: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in samples.items():
        family.add_metric(values, value)
    return family


def _durations(durations: Mapping[JobState, Durations]) -> HistogramMetricFamily:
    text = "Seconds from the first start of an optimization to its end."
    family = HistogramMetricFamily("superopt_job_seconds", text, labels=("state",))
    bounds = (*(str(bound) for bound in DURATION_BOUNDS), "+Inf")
    for state, counted in durations.items():
        buckets = list(zip(bounds, accumulate(counted.jobs), strict=True))
        family.add_metric((str(state),), buckets, counted.seconds)
    return family
