"""superopt submit against a real service."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from superopt.cli.main import run
from superopt.optimizer.parallel.documents.cluster import named_cluster, parse_cluster
from superopt.server.settings import Settings
from superopt.server.worker.loop import Worker
from superopt.substitution_db import Database, open_database
from superopt.substitution_db.store.records import JobRole
from tests.server.conftest import WEIGHT, tiny_model
from tests.server.live import serving

WORK = Path(__file__).parent.parent / "server"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    directory = tmp_path_factory.mktemp("submit")
    with open_database(f"sqlite:///{directory}/service.db", library=directory / "none") as opened:
        yield opened


@pytest.fixture(scope="module")
def settings() -> Settings:
    return Settings(
        optimize_file="work_functions:external", job_niceness=0, poll_seconds=0.02, min_free_bytes=0
    )


@pytest.fixture(scope="module")
def server(database: Database, settings: Settings) -> Iterator[str]:
    """A service without a worker."""
    with serving(settings, database) as address:
        yield address


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A model with external data."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "w.bin").write_bytes(WEIGHT)
    path = tmp_path / "in" / "net.onnx"
    path.write_bytes(tiny_model("w.bin", ("b", 4)))
    return path


def test_submitted_followed_and_written(
    server: str,
    database: Database,
    settings: Settings,
    given: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(WORK))
    stop = threading.Event()
    worker = threading.Thread(target=Worker(database, settings, stop).run)
    worker.start()
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    words = [
        "submit",
        str(given),
        "--server",
        server,
        "-o",
        str(out),
        "--report",
        str(report),
        "--dim",
        "b=8",
    ]
    code = run([*words, "--json"])
    printed = capfdbinary.readouterr()
    inline = tmp_path / "inline.onnx"
    inline.write_bytes(tiny_model())
    streamed = run(["submit", str(inline), "--server", server, "-o", "-"])
    stop.set()
    worker.join()
    assert code == 0, printed.err
    assert (streamed, capfdbinary.readouterr().out) == (0, inline.read_bytes())
    document = json.loads(printed.out)
    assert (document["state"], document["report"]["schema"]) == ("succeeded", 1)
    assert json.loads(report.read_text()) == document["report"]
    assert (out.read_bytes(), (tmp_path / "w.bin").read_bytes()) == (given.read_bytes(), WEIGHT)
    job = database.jobs.get(document["id"])
    assert job is not None
    assert (job.options, job.model_name) == ({"dim": {"b": 8}}, "net.onnx")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--server", "http://127.0.0.1:9", "--no-wait"], 4, "http://127.0.0.1:9 cannot be reached"),
        (["--server", "nowhere"], 2, "server: expected a URL"),
        (["--alpha", "0.5"], 2, "The options are invalid: options: alpha"),
        (["--report", "x.pdf"], 2, "report: expected a file ending in"),
        (["--no-wait", "-o", "x.onnx"], 2, "--no-wait excludes --output and --report"),
        (["--dim", "batch"], 2, "dim: expected NAME=SIZE"),
        (["-o", "-"], 2, "net.onnx has external data"),
        (["--cluster", "cray-1"], 2, "cluster: expected a file, one of"),
    ],
)
def test_failures_have_their_exit_codes(
    server: str, given: Path, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    address = [] if "--server" in words else ["--server", server]
    assert run(["submit", str(given), *address, *words]) == code
    assert message in capsys.readouterr().err


def test_without_waiting_it_says_the_id(
    server: str, given: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["submit", str(given), "--server", server, "--no-wait"]) == 0
    job = database.jobs.get(capsys.readouterr().out.strip())
    assert job is not None
    assert database.jobs.cancel(job.id) is not None


def test_a_known_machine_is_described_to_the_service(
    server: str, given: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(["submit", str(given), "--server", server, "--no-wait", "--cluster", "4x-t4:2", "--dim", "b=4"])
        == 0
    )
    job = database.jobs.get(capsys.readouterr().out.strip())
    assert job is not None
    assert database.jobs.cancel(job.id) is not None
    (sent,) = (file.sha256 for file in job.files if file.role is JobRole.CLUSTER)
    assert parse_cluster(database.blobs.path(sent).read_text(), "c") == named_cluster("4x-t4:2")


def test_an_interrupt_cancels_and_says_so(server: str, given: Path, database: Database) -> None:
    words = [sys.executable, "-m", "superopt", "submit", str(given), "--server", server]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        identity = process.stderr.readline().split()[1].rstrip(":")
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(timeout=30) == 130
    assert said == f"optimization {identity}: cancelled\nsuperopt: interrupted\n"
    job = database.jobs.get(identity)
    assert job is not None
    assert job.state == "cancelled"
