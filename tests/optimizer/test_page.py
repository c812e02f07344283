"""The page of a report: complete, self-contained, safe whatever a model's nodes are called."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from superopt.equations import drawing, parse_equation
from superopt.errors import InvalidFileError
from superopt.onnx_io import lift, load_model
from superopt.optimizer import Measured, Options, Pipeline, Request, html_of
from superopt.optimizer.cost import MemoryCostStore
from superopt.optimizer.explanation.amounts import amount, change, signed
from tests.equations.test_abbreviation import FULL, SHORT
from tests.optimizer.graphs import skewed_products
from tests.optimizer.models import model_of
from tests.optimizer.rules import ASSOCIATIVE, rules

Report = dict[str, object]

VOID = ("meta", "link", "img", "br", "input", "path", "circle", "rect")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report on a chain of products that is worth reordering."""
    path: Path = tmp_path_factory.mktemp("page") / "skewed.onnx"
    path.write_bytes(model_of(skewed_products()))
    offered = rules(ASSOCIATIVE, "relu(x) => relu(relu(x))")
    options = Options(budget=8.0, threads=1)
    result = Pipeline(Request(lift(load_model(path)), offered, options), Measured(MemoryCostStore())).run()
    return json.loads(json.dumps(result.report.to_json()))


class Elements(HTMLParser):
    """Checks that elements are closed in order, and collects what could be loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        held = dict(attrs)
        self.sources += [held[name] or "" for name in ("src", "href", "srcset", "action") if name in held]
        self.ids += [held["id"] or ""] if "id" in held else []
        if tag == "img":
            assert held["alt"]

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(page: str) -> Elements:
    elements = Elements()
    elements.feed(page)
    elements.close()
    assert elements.open == []
    assert len(elements.ids) == len(set(elements.ids))
    return elements


def test_a_page_shows_what_was_gained_and_why_not_more(report: Report) -> None:
    page = parsed(html_of(report))
    headings = ("Cost over time", "What each rule gained", "What was rewritten", "Slowest operators")
    for text in (*headings, "Rules not used, and why", "skewed.onnx", "outputs equal", "more costly"):
        assert text in page.text
    assert re.search(r"\d\d?\.\d\d×", page.text)


def test_a_page_loads_nothing(report: Report) -> None:
    page = parsed(html_of(report))
    assert page.sources
    assert all(source.startswith(("#", "data:")) for source in page.sources)
    assert "@import" not in html_of(report)
    assert "default-src 'none'" in html_of(report)


def test_names_are_text_whatever_they_are(report: Report) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    text = json.dumps(report).replace("skewed.onnx", hostile).replace('"x1"', json.dumps(hostile))
    page = html_of(json.loads(text))
    assert page.count("<script>") == 1
    assert "onerror=alert" not in re.sub(r"&lt;.*?&gt;", "", page)
    assert hostile in parsed(page).text


def test_reports_without_explanation_have_a_page(report: Report) -> None:
    old = {key: value for key, value in report.items() if key not in ("explanation", "versions", "memory")}
    page = parsed(html_of(old))
    assert "matmul(matmul(x, y), z) => matmul(x, matmul(y, z))" in page.text
    assert "Rules not used" not in page.text
    unchanged = {**old, "returned": "original", "measured": None, "trace": []}
    assert "unchanged" in parsed(html_of(unchanged)).text


def test_a_page_says_at_which_sizes(report: Report) -> None:
    assert "Sizes" not in parsed(html_of(report)).text
    guessed: Report = {
        "priced": {"batch": 1, "seq": 128},
        "checked": [{"batch": 2, "seq": 48}],
        "timed": None,
    }
    request: Report = {"guessed": ["seq"], "request": "--dim seq=128"}
    text = parsed(html_of({**report, "sizes": {**guessed, **request}})).text
    for part in ("batch=1 seq=128", "batch=2 seq=48", "guessed: seq", "at guessed sizes", "--dim seq=128"):
        assert part in text
    given: Report = {**guessed, "timed": {"batch": 1, "seq": 64}, "guessed": [], "request": ""}
    text = parsed(html_of({**report, "sizes": given})).text
    assert "timed at batch=1 seq=64; as given" in text
    assert "at guessed sizes" not in text


def test_algorithms_are_abbreviated(report: Report) -> None:
    text = json.dumps(report).replace("matmul(matmul(x, y), z) => matmul(x, matmul(y, z))", FULL)
    explained = json.loads(text)
    (unused,) = explained["explanation"]["unused"]
    unused |= {"equation": FULL, "detail": f"another rule took the place: {FULL}"}
    page = html_of(explained)
    assert "(((" not in page
    assert parsed(page).text.count(SHORT) == 4
    assert base64.b64encode(drawing(parse_equation(FULL)).encode()).decode() in page


def test_options_that_are_objects_are_shown(report: Report) -> None:
    assert "batch=8 seq=2" in html_of({**report, "options": {"dims": {"batch": 8, "seq": 2}}})


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"cost": None}, {"search": {}}, {"measured": {"ratio": "fast"}}, {"explanation": [1]}],
)
def test_what_is_no_report_has_no_page(report: Report, change: Report) -> None:
    with pytest.raises(InvalidFileError, match=r"^report: "):
        html_of({**report, **change})


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (amount(1530.0, "us"), "1.53 ms"),
        (amount(0.5, "us"), "0.50 µs"),
        (amount(2.5e9, "flops"), "2.50 GFLOP"),
        (amount(float("nan"), "us"), "–"),
        (signed(12.25, "us"), "+12.2 µs"),
        (signed(-3.0, "bytes"), "−3.00 B"),
        (signed(0.0, "us"), "0 µs"),
        (change(4120.0, 2300.0, "us"), "4.12 → 2.30 ms"),
        (change(1200.0, 800.0, "us"), "1.20 ms → 800 µs"),
    ],
)
def test_amounts(written: str, expected: str) -> None:
    assert written.replace("\u00a0", " ") == expected


def test_a_model_that_does_not_run_was_not_searched(report: Report) -> None:
    search = {**dict(report["search"]), "stopped_by": "not_run"}  # type: ignore[call-overload]
    page = html_of({**report, "search": search})
    assert "<dt>Search</dt><dd>none<small>the original does not run</small></dd>" in page
