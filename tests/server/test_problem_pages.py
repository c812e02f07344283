"""Problems as pages for people, and as documents for programs."""

from __future__ import annotations

import pytest

from superopt.server.page.problem_page import prefers_html
from tests.server.conftest import Http, problem

CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (CHROMIUM, True),
        (FIREFOX, True),
        ("Text/HTML", True),
        ("", False),
        ("*/*", False),
        ("application/json, text/plain, */*", False),
        ("text/html, application/json", False),
        ("text/html;q=0.3, application/problem+json;q=0.5", False),
        ("text/html;q=much", False),
        ("text/html;level=1;q=0.9", True),
    ],
)
def test_who_prefers_a_page(accept: str, expected: bool) -> None:  # noqa: FBT001
    assert prefers_html(accept) is expected


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/nothing", 404, "There is nothing at /nothing"),
        ("/%3Cscript%3E", 404, "There is nothing at /&lt;script&gt;"),
        ("/v1/optimizations/0", 404, "There is no optimization 0"),
        ("/v1/optimizations?limit=0", 422, "Input should be greater than or equal to 1"),
    ],
)
def test_people_get_a_page(http: Http, path: str, status: int, text: str) -> None:
    response = http("GET", path, headers={"Accept": CHROMIUM})
    assert (response.status_code, response.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert text in response.text
    assert "$" not in response.text
    assert '<a class="button" href="/">' in response.text
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]


def test_who_is_refused_at_the_door_gets_a_page_too(http: Http) -> None:
    response = http("GET", "/", headers={"Accept": FIREFOX}, client=("192.0.2.7", 50000))
    assert response.status_code == 403
    assert "superopt keys create NAME" in response.text


def test_programs_get_a_document(http: Http) -> None:
    response = http("GET", "/nothing")
    assert problem(response) == (404, "not-found")
    assert response.headers["vary"] == "Accept"
    assert response.json()["detail"] == "there is nothing at /nothing"
    posted = http("POST", "/v1/substitutions/prove", headers={"Accept": CHROMIUM}, json={})
    assert problem(posted) == (422, "invalid-parameters")
