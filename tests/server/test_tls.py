"""HTTPS, and requests through a reverse proxy."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from superopt.cli.main import run
from superopt.errors import InvalidOptionError
from superopt.server.http.app import create_app
from superopt.server.http.state import shared_state
from superopt.server.process.serve import http_configuration
from superopt.server.process.tls import Tls
from superopt.server.settings import Settings
from superopt.substitution_db import Database
from tests.machine import require_program
from tests.server.live import serving

CLIENT = "203.0.113.9"


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    """A certificate for this machine, signed by itself."""
    openssl = require_program("openssl", "openssl")
    files = Tls(tmp_path / "certificate.pem", tmp_path / "key.pem")
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    paths = ["-keyout", str(files.key), "-out", str(files.certificate)]
    subprocess.run([openssl, *words, *paths], check=True, capture_output=True)
    return files


@contextmanager
def serving_tls(settings: Settings, database: Database, tls: Tls) -> Iterator[str]:
    """The address of a service with TLS."""
    app = create_app(settings, database)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(http_configuration(app, 5, tls))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            shared_state(app).stopping.set()
            server.should_exit = True
            thread.join()


def test_https(settings: Settings, database: Database, tls: Tls) -> None:
    trusting = ssl.create_default_context(cafile=tls.certificate)
    with serving_tls(settings, database, tls) as address:
        with httpx.Client(base_url=address, verify=trusting) as client:
            assert client.get("/livez").json()["status"] == "alive"
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/livez")
    assert tls.context().minimum_version is ssl.TLSVersion.TLSv1_2


def test_what_is_no_certificate_is_one_sentence(tls: Tls, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    for files, expected in (
        (Tls(tmp_path / "missing.pem"), "TLS: cannot read .*missing.pem: No such file or directory"),
        (Tls(tmp_path / "empty.pem"), "TLS: expected a certificate and its key without a password, as PEM"),
        (Tls(tls.certificate), "TLS: expected a certificate and its key"),
    ):
        with pytest.raises(InvalidOptionError, match=expected):
            files.context()


def test_a_key_with_a_password_does_not_ask(tls: Tls, tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    words = [require_program("openssl", "openssl"), "rsa", "-aes256", "-passout", "pass:secret"]
    subprocess.run([*words, "-in", str(tls.key), "-out", str(locked)], check=True, capture_output=True)
    with pytest.raises(InvalidOptionError, match="without a password"):
        Tls(tls.certificate, locked).context()


def test_a_key_alone_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--tls-key", "key.pem"]) == 2
    assert "--tls-key needs --tls-certificate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("trusted", "forwarded", "status"),
    [
        ("127.0.0.1", CLIENT, 403),
        ("127.0.0.1", f"127.0.0.1, {CLIENT}", 403),
        ("127.0.0.0/8, 10.0.0.0/8", f"127.0.0.1, {CLIENT}, 10.1.2.3", 403),
        ("127.0.0.1", "127.0.0.1", 200),
        ("10.0.0.1", CLIENT, 200),
    ],
)
def test_forwarded_addresses_count_from_trusted_proxies(
    settings: Settings, database: Database, trusted: str, forwarded: str, status: int
) -> None:
    changed = settings.model_copy(update={"trusted_proxies": trusted})
    with serving(changed, database) as address:
        response = httpx.get(f"{address}/v1/optimizations", headers={"X-Forwarded-For": forwarded})
    assert response.status_code == status, "without keys only this machine is served"


@pytest.mark.parametrize("text", ["*", "0.0.0.0/0", "127.0.0.1,::/0", "proxy.example", ""])
def test_not_everybody_can_be_trusted(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="SUPEROPT_TRUSTED_PROXIES: "):
        Settings.from_environment({"SUPEROPT_TRUSTED_PROXIES": text})
