"""Clients at work on a service whose processes are killed at random."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess

import httpx
import psutil
from sqlalchemy import func, select

from superopt.server.settings import Settings
from superopt.substitution_db import Database
from superopt.substitution_db.store.models import JobEventRow
from superopt.substitution_db.store.records import JobState
from tests.crash.invariants import check
from tests.crash.processes import free_port, settings, start_server, start_worker, wait_for

_URL = "/v1/optimizations"
_WORKERS = 2
_CLIENTS = 2
_WAITING = 8
_MOST_EVENTS_BETWEEN = 16
_MOST_SECONDS_BETWEEN = 0.1
_TRIES = 200


@dataclass
class Outcome:
    """What was killed, and how the jobs ended."""

    killed: Counter[str] = field(default_factory=Counter[str])
    jobs: Counter[str] = field(default_factory=Counter[str])
    attempts: int = 0
    results_compared: int = 0

    def __str__(self) -> str:
        return (
            f"killed {dict(self.killed)}; {self.jobs.total()} jobs {dict(self.jobs)} in {self.attempts} "
            f"attempts; {self.results_compared} results read twice"
        )


def kill_at_random(database: Database, count: int, seed: int) -> Outcome:
    """Kills a server, a worker or the process of a job ``count`` times, each a random number of job events
    after the last, while clients submit, read and cancel; then lets everything end and checks what must hold.
    Raises AssertionError.
    """
    chance = random.Random(seed)
    outcome = Outcome()
    changed = settings()
    port = free_port()
    clients = [_Client(port, chance.random()) for _ in range(_CLIENTS)]
    cluster = _Service(database.url, changed, port)
    try:
        cluster.wait()
        for client in clients:
            client.start()
        pause = threading.Event()
        for _ in range(count):
            aim = _events(database) + chance.randint(0, _MOST_EVENTS_BETWEEN)
            while _events(database) < aim:
                pause.wait(0.005)
            pause.wait(chance.uniform(0, _MOST_SECONDS_BETWEEN))
            outcome.killed[cluster.kill(chance)] += 1
        for client in clients:
            client.leaving.set()
        for client in clients:
            client.join()
            assert client.failure is None, client.failure
        while any(not job.state.final for job in database.jobs.list()):
            pause.wait(0.05)
        seen = {identity: digest for client in clients for identity, digest in client.results.items()}
        outcome.results_compared = _compare(port, seen)
    finally:
        for client in clients:
            client.leaving.set()
        cluster.end()
    jobs = check(database, [identity for client in clients for identity in client.accepted])
    assert all(job.state is not JobState.CRASHED or job.attempts == job.max_attempts for job in jobs)
    outcome.jobs = Counter(str(job.state) for job in jobs)
    outcome.attempts = sum(job.attempts for job in jobs)
    return outcome


def _events(database: Database) -> int:
    """How many things have happened to jobs."""
    with database.transactions.read() as session:
        return session.scalar(select(func.max(JobEventRow.id))) or 0


def _compare(port: int, seen: dict[str, str]) -> int:
    """A result that somebody has read is the same for ever."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        wait_for(client)
        for identity, digest in seen.items():
            assert hashlib.sha256(client.get(f"{_URL}/{identity}/model").content).hexdigest() == digest
    return len(seen)


class _Service:
    """A server and workers; what dies is started again."""

    def __init__(self, url: str, changed: Settings, port: int) -> None:
        self._url = url
        self._settings = changed
        self._port = port
        self._server = self._start_server()
        self._workers = [self._start_worker() for _ in range(_WORKERS)]

    def wait(self) -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{self._port}") as client:
            wait_for(client)

    def kill(self, chance: random.Random) -> str:
        """Kills something; returns what it was."""
        what = chance.choices(("server", "worker", "child"), (3, 4, 2))[0]
        worker = chance.randrange(_WORKERS)
        if what == "server":
            _kill(self._server)
            self._server = self._start_server()
        elif what == "child" and (children := psutil.Process(self._workers[worker].pid).children()):
            children[0].kill()
        else:
            what = "worker"
            _kill(self._workers[worker])
            self._workers[worker] = self._start_worker()
        return what

    def end(self) -> None:
        processes = [self._server, *self._workers]
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()

    def _start_server(self) -> BaseProcess:
        return start_server(self._url, self._settings, self._port)

    def _start_worker(self) -> BaseProcess:
        return start_worker(self._url, self._settings)


def _kill(process: BaseProcess) -> None:
    process.kill()
    process.join()


class _Client(threading.Thread):
    """Submits models, never two alike, until it shall leave; cancels some, reads the results of others."""

    def __init__(self, port: int, seed: float) -> None:
        super().__init__(daemon=True)
        self.accepted: list[str] = []
        self.results: dict[str, str] = {}
        self.leaving = threading.Event()
        self.failure: BaseException | None = None
        self._chance = random.Random(seed)
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10)

    def run(self) -> None:
        try:
            with self._http:
                while not self.leaving.is_set():
                    self._submit()
                    self._look_back()
        except BaseException as error:  # noqa: BLE001 - whoever joins the thread raises it
            self.failure = error

    def _submit(self) -> None:
        """Sends a request again until it is answered; one that was answered with an id is accepted."""
        number = self._chance.randrange(1 << 60)
        for _ in range(_TRIES):
            response = self._ask(
                "POST",
                _URL,
                files={"model": f"model {number}".encode()},
                data={"options": f'{{"seed": {number}}}'},
            )
            if response is not None and response.status_code == 202:
                self.accepted.append(response.json()["id"])
                return
            assert response is None or response.status_code in (409, 503), response.text
            if self.leaving.wait(0.05):
                return
        raise AssertionError("the service does not come back")

    def _look_back(self) -> None:
        """At a few of the latest jobs; waits while many of its own are under way."""
        while not self.leaving.is_set():
            recent = self.accepted[-_WAITING:]
            under_way = sum(self._look(identity) for identity in recent if identity not in self.results)
            if under_way < _WAITING:
                return
            self.leaving.wait(0.05)

    def _look(self, identity: str) -> bool:
        """Whether a job is under way."""
        if self._chance.random() < 0.03:
            self._ask("DELETE", f"{_URL}/{identity}")
        job = self._ask("GET", f"{_URL}/{identity}")
        if job is None or job.status_code == 503:
            return True
        assert job.status_code == 200, job.text
        state = JobState(job.json()["state"])
        if state is JobState.SUCCEEDED:
            model = self._ask("GET", f"{_URL}/{identity}/model")
            if model is not None and model.status_code == 200:
                self.results[identity] = hashlib.sha256(model.content).hexdigest()
        return not state.final

    def _ask(self, method: str, path: str, **content: object) -> httpx.Response | None:
        """The answer; None when the server died over it."""
        try:
            return self._http.request(method, path, **content)  # type: ignore[arg-type]
        except httpx.TransportError:
            return None
