from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.server.process.serve import serve
from superopt.server.settings import Settings, misspelt
from superopt.substitution_db import open_database

PROGRAM = "from superopt.server.process.serve import serve; serve(port=0, workers=1)"


@pytest.fixture
def service(settings: Settings, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The whole service as a process, with one worker, and its address."""
    environment = {
        **os.environ,
        **settings.to_environment(),
        "SUPEROPT_DATABASE_URL": f"sqlite:///{tmp_path}/service.db",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    address = ""
    while not address:
        line = process.stderr.readline()
        assert line, "the service ended"
        found = re.search(r"running on (http://127.0.0.1:\d+)", line)
        address = found.group(1) if found else ""
    yield process, address
    process.kill()
    process.wait()
    process.stderr.close()


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_a_job_over_a_socket_and_an_orderly_end(
    service: tuple[subprocess.Popen[str], str], model: bytes
) -> None:
    process, address = service
    with httpx.Client(base_url=address, timeout=30) as client:
        response = client.post(
            "/v1/optimizations", files={"model": ("net.onnx", model)}, data={"options": '{"seed": 1}'}
        )
        assert response.status_code == 202
        states: list[str] = []
        with client.stream("GET", response.json()["links"]["events"]) as events:
            for line in events.iter_lines():
                if line.startswith("data: ") and "state" in json.loads(line[6:]):
                    states.append(json.loads(line[6:])["state"])
        assert states == ["queued", "running", "succeeded"]
        done = client.get(response.headers["location"]).json()
        assert client.get(done["links"]["model"]).content == model
        assert client.get(done["links"]["report"]).json()["options"] == {"seed": 1, "library_version": 1}
        waited = client.post("/v1/optimizations", files={"model": model}, headers={"Prefer": "wait=20"})
        assert (waited.status_code, waited.json()["state"]) == (200, "succeeded")
        family = descendants(process)
        programs = sorted(
            word for one in family for word in one.cmdline() if word.startswith("superopt.server.")
        )
        assert programs == ["superopt.server.process.sandbox_main", "superopt.server.worker.loop"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    assert [member for member in family if member.is_running()] == []


def test_kill_9_of_the_service_leaves_no_process(
    service: tuple[subprocess.Popen[str], str], model: bytes
) -> None:
    process, address = service
    httpx.post(f"{address}/v1/optimizations", files={"model": model}, timeout=60)
    while len(family := descendants(process)) < 3:
        time.sleep(0.02)
    process.kill()
    psutil.wait_procs(family, timeout=20)
    assert [member for member in family if member.is_running()] == []


def test_an_address_in_use_is_one_sentence(settings: Settings, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            InvalidOptionError, match=f"cannot listen on 127.0.0.1, port {port}: Address already in use"
        ):
            serve(port=port, workers=0, database_url=str(tmp_path / "x.db"), settings=settings)


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"MAX_JOB_SECONDS": "inf"}, "SUPEROPT_MAX_JOB_SECONDS: Input should be a finite number"),
        ({"LEASE_SECONDS": "1"}, "expected lease_seconds of at least twice heartbeat_seconds (20), got 1"),
    ],
)
def test_settings_under_which_no_job_ends_well_are_refused(variables: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOptionError, match=re.escape(reason)):
        Settings.from_environment({f"SUPEROPT_{name}": value for name, value in variables.items()})


def test_a_misspelt_setting_is_recognised() -> None:
    assert misspelt(
        {"SUPEROPT_MAX_UPLOAD_BYTE": "1", "SUPEROPT_LIBRARY": "x", "SUPEROPT_POLL_SECONDS": "1"}
    ) == {"SUPEROPT_MAX_UPLOAD_BYTE": "SUPEROPT_MAX_UPLOAD_BYTES"}


def test_a_library_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPEROPT_LIBRARY", str(tmp_path / "no.jsonl"))
    with (
        pytest.raises(InvalidFileError, match="no such file, which SUPEROPT_LIBRARY names"),
        open_database(f"sqlite:///{tmp_path / 'new.db'}"),
    ):
        pass
