"""The first of the uploads of ``python -m tests.malformed``; what is accepted is not done here."""

from __future__ import annotations

import httpx

from superopt.server.settings import Settings
from superopt.substitution_db import Database
from tests.server.conftest import problem
from tests.server.hostile import uploads
from tests.server.live import serving

URL = "/v1/optimizations"
COUNT = 75


def test_what_is_malformed_is_refused_with_a_problem(
    settings: Settings, database: Database, model: bytes
) -> None:
    accepted: list[str] = []
    with serving(settings, database) as address, httpx.Client(base_url=address, timeout=60) as client:
        for upload in uploads(COUNT):
            response = client.post(URL, content=upload.body, headers=upload.headers)
            if response.status_code == 202:
                accepted.append(upload.kind)
            else:
                assert 400 <= problem(response)[0] < 500, (upload.kind, response.text)
        assert client.post(URL, files={"model": model}).status_code == 202
    assert len(accepted) < COUNT / 5, accepted
    assert len(database.jobs.list()) == len(accepted) + 1
    assert list((database.blobs.directory / "incoming").iterdir()) == []
