from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from superopt.server.settings import Settings
from superopt.substitution_db import Database
from tests.server.live import add_jobs, serving

POST = b"POST /v1/substitutions/prove HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
MOST_TAKEN = 8 << 20
"""What sockets keep by themselves is part of it."""


def send(connection: socket.socket, begun: bytes) -> None:
    connection.sendall(begun)
    for _ in range(MOST_TAKEN >> 12):
        connection.sendall(b"x" * 4096)


@pytest.mark.parametrize(
    "begun",
    [b"GET /", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nX: ", POST + b"1;", POST + b"0\r\nX: "],
    ids=["address", "names", "value", "chunk", "trailer"],
)
def test_what_never_ends_ends_the_connection(settings: Settings, database: Database, begun: bytes) -> None:
    with serving(settings, database) as address:
        parts = urlsplit(address)
        with (
            socket.create_connection((parts.hostname, parts.port), timeout=20) as connection,
            pytest.raises((BrokenPipeError, ConnectionResetError)),
        ):
            send(connection, begun)
        assert httpx.get(f"{address}/livez").status_code == 200


def test_large_heads_and_many_small_pieces_are_taken(settings: Settings, database: Database) -> None:
    with serving(settings, database) as address:
        assert httpx.get(f"{address}/livez", headers={"X": "y" * 50_000}).status_code == 200
        body = iter([b'{"equation": "', *[b"x"] * 3000, b'"}'])
        headers = {"Content-Type": "application/json"}
        answer = httpx.post(f"{address}/v1/substitutions/prove", content=body, headers=headers)
        assert answer.status_code == 422


def test_head_is_get_without_its_content(settings: Settings, database: Database, model: bytes) -> None:
    done = f"/v1/optimizations/{add_jobs(database, model)[0]}"
    said = ("content-type", "content-length", "etag", "cache-control", "content-security-policy")
    with serving(settings, database) as address, httpx.Client(base_url=address, timeout=30) as client:
        for path in ("/livez", "/", "/v1/substitutions", done, f"{done}/model", "/v1/optimizations/x"):
            get, head = client.get(path), client.head(path)
            assert (head.status_code, head.content) == (get.status_code, b""), path
            assert [head.headers.get(name) for name in said] == [get.headers.get(name) for name in said], path
        assert client.head(f"{done}/events").headers["content-type"].startswith("text/event-stream")


def test_too_many_requests_at_once_end_the_connection(settings: Settings, database: Database) -> None:
    with serving(settings, database) as address:
        parts = urlsplit(address)
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
            connection.sendall(LIVE * 8)
            assert answers(connection, 8) == 8
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                connection.sendall(LIVE * (MOST_TAKEN // len(LIVE)))
        assert httpx.get(f"{address}/livez").status_code == 200


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET /livez HTTP/1.1\r\n\r\n", "expected one Host header, got 0"),
        (
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n",
            "expected one Host header, got 2",
        ),
        (b"GET /livez HTTP/x\r\n\r\n", "the request is not valid HTTP"),
        (b"GET /" + b"x" * (64 << 10), "the head of the request is larger than 65536 bytes"),
    ],
    ids=["no host", "two hosts", "version", "large"],
)
def test_what_cannot_be_read_gets_a_problem(
    settings: Settings, database: Database, sent: bytes, reason: str
) -> None:
    with serving(settings, database) as address:
        parts = urlsplit(address)
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
            connection.sendall(sent)
            with connection.makefile("rb") as answer:
                head, body = answer.read().split(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    problem = json.loads(body)
    assert status == b"HTTP/1.1 400 Bad Request"
    assert b"content-type: application/problem+json" in lines
    assert f"content-length: {len(body)}".encode() in lines
    assert (problem["type"], problem["status"]) == ("/problems/bad-request", 400)
    assert problem["detail"] == reason


def test_the_first_version_of_http_needs_no_host(settings: Settings, database: Database) -> None:
    with serving(settings, database) as address:
        parts = urlsplit(address)
        with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
            connection.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
            assert connection.recv(64).startswith(b"HTTP/1.1 200")


def answers(connection: socket.socket, most: int) -> int:
    received = b""
    while received.count(b"HTTP/1.1 200") < most or not received.endswith(b"}"):
        received += connection.recv(1 << 16)
    return received.count(b"HTTP/1.1 200")
