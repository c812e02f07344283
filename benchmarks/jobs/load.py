"""Load on loopback: many clients with small models, status reads on a schedule, memory; or a 3 GB model.

``python -m benchmarks load [--seconds 300] [--database sqlite|postgresql] [--clients 200] [--reads 100]``
``python -m benchmarks load --large [--gigabytes 3]``

Reads are open-loop: each has its time, and its latency counts from then, however long those before it take.
They come from a process of their own, so that the clients' work is not counted as the service's. The
service, the clients and the reads are sessions of their own, between which Linux may divide the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper

from benchmarks.jobs.load_clients import chain
from superopt.client import Client
from tests.postgres import PostgresServer, programs

_SAMPLE_SECONDS = 2.0
_START = 0.3
"""The share of the time in which all clients submit at once."""


@dataclass
class Reads:
    """Latencies of status reads in milliseconds, in the order in which they were due, and what went wrong."""

    milliseconds: dict[float, float] = field(default_factory=dict[float, float])
    errors: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True)
class Memory:
    """Resident MiB of processes of the service: after 10% of the time, half of it, at the end, the peak."""

    start: float
    middle: float
    end: float
    peak: float


def main() -> None:
    """Runs one of the two."""
    parser = argparse.ArgumentParser(prog="benchmarks load", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--reads", type=float, default=100.0, help="status reads per second")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--large", action="store_true", help="one large model instead")
    parser.add_argument("--gigabytes", type=float, default=3.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="superopt-load-") as name:
        result = _large(Path(name), given.gigabytes) if given.large else _load(Path(name), given)
    text = json.dumps(result, indent=1)
    sys.stdout.write(text + "\n")
    if given.json:
        given.json.write_text(text)


def _load(directory: Path, given: argparse.Namespace) -> dict[str, object]:
    with _database(directory, given.database) as url, _service(directory, given.workers, url, {}) as started:
        address, process = started
        watch = _Watch(process, given.seconds)
        words = [sys.executable, "-m", "benchmarks.jobs.load_clients", address, str(given.clients)]
        words.append(str(given.seconds))
        clients = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert clients.stdout is not None
        identity = clients.stdout.readline().strip()
        with watch:
            reads = asyncio.run(_read(f"{address}/v1/optimizations/{identity}", given.reads, given.seconds))
        done = json.loads(clients.stdout.read())
        clients.wait()
        metrics = httpx.get(f"{address}/metrics").text
    latencies = np.array([reads.milliseconds[due] for due in sorted(reads.milliseconds)])
    settled = latencies[int(len(latencies) * _START) :]
    served = sum(float(n) for n in re.findall(r"^superopt_http_requests_total\{.*\} (.*)$", metrics, re.M))
    return {
        "seconds": given.seconds,
        "reads": {
            "count": len(latencies),
            "errors": dict(reads.errors),
            "milliseconds": _quantiles(latencies),
            "after_all_have_submitted": _quantiles(settled),
        },
        "clients": {"count": given.clients, **done},
        "memory_mib": {name: asdict(memory) for name, memory in watch.memory().items()},
        "server_cpu_seconds": round(watch.server_cpu, 1),
        "server_cpu_milliseconds_per_request": round(1e3 * watch.server_cpu / max(1.0, served), 2),
        "requests": served,
        "load_average": os.getloadavg(),
    }


def _quantiles(milliseconds: np.ndarray) -> dict[str, float]:
    return {f"p{q:g}": round(float(np.percentile(milliseconds, q)), 1) for q in (50, 90, 99, 99.9, 100)}


async def _read(url: str, per_second: float, seconds: float) -> Reads:
    reads, connections = Reads(), Connections(httpx.URL(url))
    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(int(seconds * per_second)):
            due = started + number / per_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            group.create_task(_read_once(connections, due, reads))
    connections.close()
    return reads


async def _read_once(connections: Connections, due: float, reads: Reads) -> None:
    try:
        async with asyncio.timeout(30):
            status = await connections.get()
        if status != "200":
            reads.errors[status] += 1
    except (OSError, EOFError, TimeoutError) as error:
        reads.errors[type(error).__name__] += 1
    reads.milliseconds[due] = 1e3 * (time.monotonic() - due)


class Connections:
    """Kept connections that ask for one address; a whole HTTP client would take longer than the service."""

    def __init__(self, url: httpx.URL) -> None:
        self._url = url
        self._request = f"GET {url.path} HTTP/1.1\r\nHost: {url.host}\r\n\r\n".encode()
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def get(self) -> str:
        """The status of an answer that has arrived completely."""
        try:
            reader, writer = self._free.pop() if self._free else await self._opened()
            writer.write(self._request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except (ConnectionResetError, asyncio.IncompleteReadError):  # closed since, having been idle
            reader, writer = await self._opened()
            writer.write(self._request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"(?i)content-length: (\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        self._free.append((reader, writer))
        return head.split()[1]

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._url.host, self._url.port)

    def close(self) -> None:
        """Ends all that are free."""
        for _, writer in self._free:
            writer.close()


class _Watch:
    """Samples the memory of the server and of the workers (with the processes of their jobs)."""

    def __init__(self, process: subprocess.Popen[str], seconds: float) -> None:
        self._server = psutil.Process(process.pid)
        self._from = time.monotonic() + seconds / 10
        self._samples: dict[str, list[tuple[float, float]]] = {"server": [], "worker": [], "job": []}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.server_cpu = 0.0

    def __enter__(self) -> None:
        self._cpu = sum(self._server.cpu_times()[:2])
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self.server_cpu = sum(self._server.cpu_times()[:2]) - self._cpu
        self._end.set()
        self._thread.join()

    def memory(self) -> dict[str, Memory]:
        """Of each kind of process."""
        found: dict[str, Memory] = {}
        for name, samples in self._samples.items():
            settled = [size for at, size in samples if at >= self._from] or [0.0]
            peak = max((size for _, size in samples), default=0.0)
            found[name] = Memory(settled[0], settled[len(settled) // 2], settled[-1], peak)
        return found

    def _run(self) -> None:
        while not self._end.wait(_SAMPLE_SECONDS):
            sizes = dict.fromkeys(self._samples, 0.0)
            for process in (self._server, *self._server.children(recursive=True)):
                try:
                    words = " ".join(process.cmdline())
                    kind = (
                        "worker"
                        if "superopt.server.worker.loop" in words
                        else "job"
                        if "superopt.processes.child_main" in words
                        else "server"
                    )
                    sizes[kind] += process.memory_info().rss / (1 << 20)
                except psutil.NoSuchProcess:
                    continue
            for name, size in sizes.items():
                self._samples[name].append((time.monotonic(), round(size, 1)))


@contextmanager
def _database(directory: Path, kind: str) -> Generator[str]:
    """The URL of a database of its own."""
    binaries = programs()
    if kind == "sqlite":
        yield f"sqlite:///{directory}/load.db"
        return
    if binaries is None:
        raise SystemExit("PostgreSQL is not installed: apt-get install postgresql")
    server = PostgresServer(binaries, durable="on")
    try:
        yield server.url(server.new_database())
    finally:
        server.remove()


@contextmanager
def _service(
    directory: Path, workers: int, url: str, settings: dict[str, str]
) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """A service of its own: its address and process."""
    environment = {
        **os.environ,
        "SUPEROPT_DATABASE_URL": url,
        "SUPEROPT_BLOB_DIRECTORY": str(directory / "blobs"),
        "SUPEROPT_MAX_REQUESTS_PER_SECOND": "100000",
        "SUPEROPT_MAX_REQUESTS_BURST": "100000",
        "SUPEROPT_LOG_LEVEL": "info",
        **settings,
    }
    log = (directory / "log").open("w+")
    program = f"from superopt.server.process.serve import serve; serve(port=0, workers={workers})"
    words = [sys.executable, "-c", program]
    process = subprocess.Popen(words, env=environment, stderr=log, text=True, start_new_session=True)
    try:
        yield _address(directory / "log", process), process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        sys.stderr.write(f"the service ended with {code}\n")


def _address(log: Path, process: subprocess.Popen[str]) -> str:
    while process.poll() is None:
        found = re.search(r"running on (http://127.0.0.1:\d+)", log.read_text())
        if found:
            return found[1]
        time.sleep(0.1)
    raise SystemExit(log.read_text())


def _large(directory: Path, gigabytes: float) -> dict[str, object]:
    """A model whose weights are a sparse file, there and back."""
    width, count = 8192, max(1, round(gigabytes * 1e9 / (4 * 8192**2)))
    size = 4 * width**2
    with (directory / "weights.bin").open("wb") as file:
        file.truncate(size * count)
    weights: list[TensorProto] = []
    nodes: list[onnx.NodeProto] = []
    for i in range(count):
        weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[width, width])
        weight.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("offset", str(i * size)), ("length", str(size))):
            weight.external_data.add(key=key, value=value)
        weights.append(weight)
        nodes.append(
            helper.make_node(
                "MatMul", [f"x{i}" if i else "x", f"w{i}"], [f"x{i + 1}" if i + 1 < count else "y"]
            )
        )
    path = directory / "large.onnx"
    path.write_bytes(chain(nodes, weights, width).SerializeToString())
    settings = {"SUPEROPT_MAX_UPLOAD_BYTES": str(1 << 40)}
    url = f"sqlite:///{directory}/load.db"
    with _service(directory, 1, url, settings) as (address, process):
        watch = _Watch(process, 0.0)
        client_before = psutil.Process().memory_info().rss
        times: dict[str, float] = {}
        with watch, Client(address) as client:
            started = time.monotonic()
            job = client.submit(path, options={"budget": 120, "max_candidates": 1})
            times["upload"] = time.monotonic() - started
            ended = client.wait(job.id)
            times["job"] = time.monotonic() - started - times["upload"]
            if ended.succeeded:
                size_back = client.download_model(job.id, directory / "back.zip")
                times["download"] = time.monotonic() - started - times["upload"] - times["job"]
            else:
                size_back = 0
        client_after = psutil.Process().memory_info().rss
    return {
        "bytes": size * count,
        "bytes_back": size_back,
        "state": ended.state,
        "problem": str(ended.problem) if ended.problem else None,
        "seconds": {name: round(value, 1) for name, value in times.items()},
        "peak_mib": {name: memory.peak for name, memory in watch.memory().items()},
        "client_mib_more": round((client_after - client_before) / (1 << 20), 1),
    }


if __name__ == "__main__":
    main()
