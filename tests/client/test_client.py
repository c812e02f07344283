"""Both clients against a real service on a socket, with connections that break."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import anyio
import httpx
import pytest

import superopt.client as package
from superopt.client import (
    AsyncClient,
    Client,
    Event,
    NotAllowedError,
    NotFoundError,
    Optimization,
    Outcome,
    RejectedError,
    Retries,
    ServerBusyError,
    ServerUnreachableError,
)
from superopt.client import errors as error_module
from superopt.client.archives import unpack
from superopt.client.errors import DownloadDamagedError, OptimizationEndedError
from superopt.errors import InvalidModelError, InvalidOptionError, SuperoptError
from superopt.server.http.documents import OPTIMIZATION_EXAMPLE
from superopt.server.settings import Settings
from superopt.server.worker.loop import Worker
from superopt.substitution_db import Database
from superopt.substitution_db.store.records import JobsSeen
from tests.server.conftest import WEIGHT, tiny_model
from tests.server.live import RULES, furnished, serving

QUICK = Retries(attempts=4, first_seconds=0.001, most_seconds=0.01, patience_seconds=0.0)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with furnished(tmp_path_factory.mktemp("client")) as opened:
        yield opened


@pytest.fixture(scope="module")
def server(database: Database) -> Iterator[str]:
    """A service with a worker."""
    path = str(Path(__file__).parent.parent / "server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        settings = Settings(
            optimize_file="work_functions:external", job_niceness=0, poll_seconds=0.02, min_free_bytes=0
        )
        stop = threading.Event()
        worker = threading.Thread(target=Worker(database, settings, stop).run)
        worker.start()
        with serving(settings, database) as address:
            yield address
        stop.set()
        worker.join()


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A model with external data."""
    (tmp_path / "in" / "weights").mkdir(parents=True)
    (tmp_path / "in" / "weights" / "w.bin").write_bytes(WEIGHT)
    path = tmp_path / "in" / "net.onnx"
    path.write_bytes(tiny_model("weights/w.bin"))
    return path


class Breaking(httpx.BaseTransport):
    """Breaks each connection to a download after ``size`` bytes, and each event stream after two lines."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked: list[str] = []
        self._real = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.headers.get("Range", request.headers.get("Last-Event-ID", "")))
        response = self._real.handle_request(request)
        if request.url.path.endswith(("/model", "/events")):
            response.stream = _Broken(cast("httpx.SyncByteStream", response.stream), self.size)
        return response

    def close(self) -> None:
        self._real.close()


class _Broken(httpx.SyncByteStream):
    def __init__(self, real: httpx.SyncByteStream, size: int) -> None:
        self._real = real
        self._left = size

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._real:
            yield chunk[: self._left]
            self._left -= len(chunk)
            if self._left < 0:
                raise httpx.ReadError("cut")

    def close(self) -> None:
        self._real.close()


def refusing(times: int, status: int, headers: dict[str, str]) -> httpx.MockTransport:
    """What stands before a service and refuses the first requests, then lets a small answer through."""
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Idempotency-Key", ""))
        assert len(set(seen)) == 1, "a request keeps its key"
        if len(seen) <= times:
            problem = {"type": "/problems/busy", "title": "Busy", "detail": "later"}
            return httpx.Response(status, json=problem, headers=headers)
        return httpx.Response(200, json={"items": [], "next": None})

    return httpx.MockTransport(answer)


def test_a_model_with_external_data_goes_there_and_back(server: str, given: Path, tmp_path: Path) -> None:
    with Client(server) as client:
        job = client.submit(given, options={"seed": 1})
        assert {(f.role, f.name) for f in job.files} == {("data", "weights/w.bin"), ("model", "model.onnx")}
        events: list[Event] = []
        ended = client.wait(job.id, on_event=events.append)
        assert (ended.succeeded, ended.name, ended.options) == (True, "net.onnx", {"seed": 1})
        assert ended.outcome == Outcome(returned=None, ratio=None, measured=False)
        assert [e.content["state"] for e in events if e.kind == "state"] == ["queued", "running", "succeeded"]
        assert list(client.events(job.id, after=events[1].id)) == events[2:]
        written = client.save_model(job.id, tmp_path / "out.onnx")
        assert written == (tmp_path / "out.onnx", tmp_path / "weights" / "w.bin")
        assert [path.read_bytes() for path in written] == [given.read_bytes(), WEIGHT]
        assert client.report(job.id)["schema"] == 1
        assert client.cancel(job.id).state == "succeeded"
        assert job.id in [listed.id for listed in client.list(state="succeeded")]
        again = client.submit(given, options={"seed": 1})
        assert (again.state, again.reused_from) == ("succeeded", job.id)


def test_the_library_is_browsed_and_asked(server: str) -> None:
    with Client(server) as client:
        assert {rule.equation for rule in client.substitutions()} == set(RULES)
        (rule,) = client.substitutions(status="verified", operator="relu", text="relu(")
        assert (rule.equation, rule.axioms_used) == (RULES[0], ("relu-idempotent",))
        judged = client.prove("relu(x) => x")
        assert (judged.verdict, judged.counterexample is not None) == ("refuted", True)


def test_the_other_client_does_the_same(server: str, given: Path, tmp_path: Path) -> None:
    async def journey() -> None:
        async with AsyncClient(server) as client:
            job = await client.submit(given, options={"seed": 2})
            assert (await client.wait(job.id)).succeeded
            await client.download_model(job.id, tmp_path / "out.zip")
            written = await client.save_model(job.id, tmp_path / "out.onnx")
            assert [path.read_bytes() for path in written] == [given.read_bytes(), WEIGHT]
            assert await client.download_report(job.id, tmp_path / "report.json") > 2
            assert (await client.report(job.id))["schema"] == 1
            assert (await client.cancel(job.id)).state == "succeeded"
            assert (await client.prove("relu(relu(x)) => relu(x)")).known == "verified"
            assert {rule.equation async for rule in client.substitutions()} == set(RULES)
            assert job.id in [listed.id async for listed in client.list()]
            with pytest.raises(NotFoundError):
                await client.get("unknown")

    anyio.run(journey)


def test_both_have_the_same_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(Client) == public(AsyncClient)


def test_what_breaks_is_continued(server: str, given: Path, tmp_path: Path) -> None:
    transport = Breaking(150)
    with Client(server, transport=transport, retries=QUICK) as client:
        job = client.submit(given, options={"seed": 3})
        states = [event.content["state"] for event in client.events(job.id) if event.kind == "state"]
        assert states == ["queued", "running", "succeeded"]
        transport.asked.clear()
        size = client.download_model(job.id, tmp_path / "out.zip")
        assert size > 300
        assert transport.asked == ["", *(f"bytes={start}-" for start in range(150, size, 150))]
    assert unpack(tmp_path / "out.zip", tmp_path / "out.onnx")[0].read_bytes() == given.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.onnx", "out.zip", "weights"]


class EventStream(httpx.SyncByteStream):
    """A heartbeat and an event, then nothing more."""

    closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield b"retry: 2000\n\n: still there\n\nid: 7\nevent: progress\n"
        yield b'data: {"phase":\ndata: "\xe2\x80\xa8"}\n\n'
        pytest.fail("read on")

    def close(self) -> None:
        self.closed = True


def test_an_abandoned_iterator_closes_its_stream() -> None:
    stream = EventStream()
    headers = {"Content-Type": "text/event-stream"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, stream=stream))
    with Client("http://service", transport=transport, retries=QUICK) as client:
        events = client.events("x")
        assert next(events) == Event(7, "progress", {"phase": "\u2028"})
        assert not stream.closed
        del events
        assert stream.closed


def test_the_blocking_client_works_within_an_event_loop(server: str) -> None:
    async def journey() -> None:
        with Client(server) as client:
            assert {rule.equation for rule in client.substitutions()} == set(RULES)
            assert next(client.substitutions()).equation in RULES

    anyio.run(journey)


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "0"}])
@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_is_busy_is_asked_again(status: int, headers: dict[str, str]) -> None:
    with Client("http://service", transport=refusing(3, status, headers), retries=QUICK) as client:
        assert list(client.list()) == []
    with (
        Client("http://service", transport=refusing(4, status, headers), retries=QUICK) as client,
        pytest.raises(ServerBusyError, match="Busy: later"),
    ):
        list(client.list())


def test_a_service_that_wants_too_much_patience_is_busy() -> None:
    transport = refusing(1, 429, {"Retry-After": "30"})
    with (
        Client("http://service", transport=transport, retries=QUICK) as client,
        pytest.raises(ServerBusyError),
    ):
        list(client.list())


def test_a_lost_answer_makes_no_second_job(server: str, given: Path) -> None:
    sent: list[str] = []

    class Forgetful(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = super().handle_request(request)
            sent.append(request.headers["Idempotency-Key"])
            if len(sent) == 1:
                response.read()
                response.close()
                raise httpx.ReadError("cut")
            return response

    with Client(server) as other, Client(server, transport=Forgetful(), retries=QUICK) as client:
        before = len(list(other.list()))
        client.submit(given, options={"seed": 4})
        assert len(list(other.list())) == before + 1
    assert len(sent) == 2


@pytest.mark.parametrize(
    ("call", "kind", "exit_code", "text"),
    [
        (lambda c, _: c.get("unknown"), NotFoundError, 2, "there is no optimization unknown"),
        (lambda c, m: c.submit(m, options={"alpha": 0}), RejectedError, 2, "options: alpha: "),
        (lambda c, m: c.submit(m.parent / "none.onnx"), InvalidModelError, 2, "none.onnx"),
        (lambda c, m: c.submit(m, cluster="none.yaml"), InvalidOptionError, 2, "none.yaml: cannot be read"),
        (lambda c, _: c.prove("relu("), RejectedError, 2, "The equation cannot be parsed"),
    ],
)
def test_failures_carry_the_problem(
    server: str, given: Path, call: Callable[[Client, Path], object], kind: type, exit_code: int, text: str
) -> None:
    with Client(server) as client, pytest.raises(kind, match=text) as raised:
        call(client, given)
    assert raised.value.exit_code == exit_code
    problem = getattr(raised.value, "problem", None)
    assert problem is None or problem.type.startswith("/problems/")


def test_addresses_and_keys(server: str, database: Database) -> None:
    for address in ("localhost:8080", "ftp://x", "http://"):
        with pytest.raises(InvalidOptionError, match="server: "):
            Client(address)
    with Client("http://127.0.0.1:9", retries=QUICK) as client:
        with pytest.raises(ServerUnreachableError, match=r"http://127\.0\.0\.1:9 cannot be") as raised:
            client.get("x")
        assert raised.value.exit_code == 4
    made = database.keys.create("reader", ["read"], sees=JobsSeen.ALL)
    with Client(server) as client, pytest.raises(NotAllowedError, match="An API key is needed"):
        list(client.list())
    with Client(server, key=made.token) as client:
        assert [one.id for one in client.list()] == [job.id for job in database.jobs.list()]
        with pytest.raises(NotAllowedError, match="lacks the scope submit"):
            client.cancel("x")


def test_an_archive_leads_nowhere_else(tmp_path: Path) -> None:
    import zipfile

    for name in ("../x", "/tmp/x", "a/../../x", "a\\x"):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr("model.onnx", b"")
            archive.writestr(name, b"")
        with pytest.raises(DownloadDamagedError, match="outside of its directory"):
            unpack(tmp_path / "a.zip", tmp_path / "out" / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_the_tree_of_errors_is_the_one_drawn() -> None:
    drawn = error_module.__doc__ or ""
    for name in error_module.__all__:
        kind = getattr(error_module, name)
        if isinstance(kind, type):
            assert issubclass(kind, SuperoptError)
            assert f"─ {name}" in drawn
    assert set(package.__all__) == {name for name in vars(package) if name[0].isupper()}


@pytest.mark.parametrize(
    ("state", "sentence"),
    [("cancelled", "the optimization was cancelled"), ("crashed", "the optimization crashed")],
)
def test_an_end_is_said_in_a_sentence(state: str, sentence: str) -> None:
    assert str(OptimizationEndedError(state, None)) == sentence


@pytest.mark.parametrize("key", ["clé", "two words", "tab\t"])
def test_a_key_that_no_header_can_have_is_refused(key: str) -> None:
    with pytest.raises(InvalidOptionError, match="key: expected printable ASCII characters"):
        Client("http://127.0.0.1:1", key=key)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda client: client.submit(Path("m"), idempotency_key="\u00e9"), "idempotency_key: expected 1 to"),
        (lambda client: client.submit(Path("m"), idempotency_key="a\r\nX: y"), "idempotency_key: expected"),
        (lambda client: client.submit(b"model"), "model: expected a path, got bytes"),
        (lambda client: client.get(""), "identity: expected the id of an optimization, got ''"),
        (lambda client: client.cancel(".."), "identity: expected the id of an optimization, got '..'"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[Client], object], reason: str) -> None:
    transport = httpx.MockTransport(lambda _: pytest.fail("sent"))
    with (
        Client("http://service", transport=transport) as client,
        pytest.raises(InvalidOptionError, match=re.escape(reason)),
    ):
        call(client)


def test_an_id_is_one_segment_of_the_path() -> None:
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path)
        return httpx.Response(404)

    transport = httpx.MockTransport(answer)
    with Client("http://service", transport=transport) as client, pytest.raises(NotFoundError):
        client.get("../substitutions")
    assert asked == [b"/v1/optimizations/..%2Fsubstitutions"]


def test_the_outcome_is_part_of_an_optimization() -> None:
    content = {**OPTIMIZATION_EXAMPLE, "files": [], "options": {}}
    assert Optimization.of(content).outcome == Outcome(returned="optimized", ratio=1.264, measured=True)
