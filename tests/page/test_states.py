"""The page for everyone and on bad days: keyboard, accessibility, colours, sizes, keys, no connection."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Literal

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, Route, expect

from superopt.equations import parse_equation, rule_id
from superopt.server.options import service_options
from superopt.server.problem_types import ProblemType
from superopt.substitution_db.store.records import Evidence
from tests.page.conftest import RULES, Service

VIEWS = ("/", "/optimizations", "/optimizations/unknown", "/library", "/prove", "/docs", "/unknown")


def test_every_file_is_from_here_and_no_other_can_be_had(service: Service) -> None:
    with httpx.Client(base_url=service.address, timeout=30) as http:
        page, viewer = http.get("/"), http.get("/netron/index.html")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
        assert "unsafe" not in policy
        assert not re.search(r'(src|href)="(?!/|#)', page.text)
        assert not re.search(r'\son\w+="|style="|<style|<script>', page.text)
        assert "script-src 'self';" in viewer.headers["content-security-policy"]
        assert viewer.headers["x-frame-options"] == "SAMEORIGIN"
        assert all(
            http.get(path).text == page.text for path in ("/optimizations/x", "/library/x", "/prove", "/docs")
        )
        for path in ("/page/files/%2e%2e/routes.py", "/page/files/index.html", "/netron/server.py"):
            assert http.get(path).status_code == 404, path
        assert http.get("/", headers={"If-None-Match": page.headers["etag"]}).status_code == 304
        offered = [one["name"] for one in http.get("/page/choices").json()["options"]]
        assert offered == list(service_options(service.settings))


@pytest.mark.parametrize(("colours", "width"), [("light", 390), ("dark", 820), ("light", 1440)])
def test_nothing_keeps_people_out_and_nothing_is_wider_than_the_screen(
    page: Page, service: Service, colours: Literal["light", "dark"], width: int, finished: str
) -> None:
    page.emulate_media(color_scheme=colours)
    page.set_viewport_size({"width": width, "height": 900})
    rule = service.database.rules.list(limit=1)[0].id
    for path in (*VIEWS, f"/library/{rule}", finished):
        page.goto(path)
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("main .loading")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        found = Axe().run(page)
        assert found.violations_count == 0, (path, found.generate_report())


def test_everything_is_reached_by_the_keyboard(page: Page) -> None:
    with page.expect_response("**/page/choices"):
        page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Drop a model, or choose files")).to_be_focused()
    page.keyboard.press("Tab")
    objective = page.get_by_label("Objective")
    expect(objective).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(objective).not_to_have_value("latency")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Budget in seconds")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("A model is missing")
    expect(page.get_by_label("Drop a model, or choose files")).to_be_focused()
    library = page.get_by_role("link", name="Library")
    library.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Library")).to_be_focused()
    expect(library).to_have_attribute("aria-current", "page")


def test_a_link_to_a_part_of_the_page_keeps_what_was_filled_in(page: Page, model: Path) -> None:
    page.goto("/")
    page.get_by_label("Drop a model, or choose files").set_input_files(model)
    page.get_by_role("link", name="Skip to content").press("Enter")
    expect(page.locator("#main")).to_be_focused()
    expect(page.get_by_role("button", name=f"Remove {model.name}")).to_be_visible()
    page.go_back()
    expect(page).to_have_url(re.compile("/$"))
    expect(page.get_by_role("button", name=f"Remove {model.name}")).to_be_visible()
    page.get_by_role("link", name="Library").click()
    expect(page.get_by_role("heading", name="Library")).to_be_focused()
    page.go_back()
    expect(page.get_by_role("heading", name="Optimise a model")).to_be_visible()


def test_a_link_within_the_documentation_opens_its_schema(page: Page) -> None:
    page.goto("/docs")
    first = page.locator("details.operation", has=page.locator('a[href^="#schema-"]')).first
    first.locator("summary").click()
    link = first.locator('a[href^="#schema-"]').first
    name = (link.get_attribute("href") or "").removeprefix("#")
    link.click()
    expect(page.locator(f"details#{name}")).to_have_attribute("open", "")
    expect(first).to_have_attribute("open", "")


def test_an_advanced_option_that_is_wrong_is_unfolded(page: Page, model: Path) -> None:
    page.goto("/")
    expect(page.get_by_label("Search")).to_be_hidden()
    page.get_by_text("Advanced options").click()
    page.get_by_label("Seed").fill("-1")
    page.get_by_text("Advanced options").click()
    page.get_by_label("Drop a model, or choose files").set_input_files(model)
    page.get_by_role("button", name="Optimise").click()
    expect(page.get_by_role("alert")).to_contain_text("Seed")
    expect(page.get_by_label("Seed")).to_be_focused()


def test_a_search_of_clusters_is_offered_with_one(page: Page) -> None:
    page.goto("/")
    page.get_by_text("Advanced options").click()
    search = page.get_by_label("Search")
    only = search.get_by_role("option", name=re.compile("^None"))
    expect(only).to_have_count(0)
    cluster = {"name": "c.yaml", "mimeType": "text/yaml", "buffer": b"nodes: []"}
    page.get_by_label("Drop a model, or choose files").set_input_files(cluster)
    expect(only).to_have_count(1)
    search.select_option("none")
    page.get_by_role("button", name="Remove c.yaml").click()
    expect(search).to_have_value("auto")


NAMES = ("Модель “v2” (final).onnx", 'a "quoted" name.onnx', f"{'long ' * 30}name.onnx")


def test_files_are_named_as_they_were_given(
    page: Page, service: Service, model: Path, tmp_path: Path
) -> None:
    for name in NAMES:
        path = tmp_path / name
        path.write_bytes(model.read_bytes())
        page.goto("/")
        page.get_by_label("Drop a model, or choose files").set_input_files(path)
        expect(page.locator(".file-name")).to_have_text(name)
        page.get_by_label("Budget in seconds").fill("47")
        page.get_by_role("button", name="Optimise").click()
        page.wait_for_url("**/optimizations/*")
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        service.database.jobs.cancel(page.url.rpartition("/")[2])
    page.goto("/optimizations")
    for name in NAMES:
        expect(page.get_by_role("link", name=name)).to_have_count(1)


@pytest.mark.parametrize("width", [320, 390])
def test_a_plot_is_whole_on_a_small_screen(page: Page, finished: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(finished)
    for selector in ("#cost svg.plot", "svg.interval"):
        page.locator(selector).first.scroll_into_view_if_needed()
        outside = page.evaluate(OUTSIDE, selector)
        assert outside == [], selector


OUTSIDE = """(selector) => {
  const panel = document.querySelector(selector).closest(".panel").getBoundingClientRect();
  return [...document.querySelectorAll(`${selector} :is(text, path, circle)`)].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.left < panel.left + 4 || box.right > panel.right - 4;
  }).map((one) => one.outerHTML);
}"""
"""What of a plot is not inside its panel."""


TOUCHING = """() => {
  const inside = [...document.querySelectorAll("main *")].filter((one) => one.checkVisibility()
    && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
    && !one.closest(".wide, .hidden, svg, .contents, pre, datalist, option"));
  const edge = document.documentElement.clientWidth;
  return inside.filter((one) => {
    const range = document.createRange();
    range.selectNodeContents(one);
    const box = (getComputedStyle(one).overflowX === "visible" ? range : one).getBoundingClientRect();
    return box.width > 1 && (box.left < 8 || box.right > edge - 8);
  }).map((one) => one.outerHTML.slice(0, 200));
}"""
"""Texts that come closer than 8 pixels to an edge of the screen, and do not scroll."""


def test_nothing_touches_the_edges_of_a_small_screen(page: Page, service: Service, finished: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    rule = service.database.rules.list(limit=1)[0].id
    for path in (*VIEWS, f"/library/{rule}", finished):
        page.goto(path)
        expect(page.locator("main .loading")).to_have_count(0)
        assert page.evaluate(TOUCHING) == [], path


def test_a_refused_submission_fits_a_small_screen(page: Page, model: Path, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    path = tmp_path / f"{'a-model-with-a-long-name-' * 4}.onnx"
    path.write_bytes(model.read_bytes())
    page.goto("/")
    page.get_by_label("Drop a model, or choose files").set_input_files(path)
    page.get_by_text("Advanced options").click()
    page.get_by_label("Dim", exact=True).fill("bacth=8")
    page.get_by_role("button", name="Optimise").click()
    expect(page.get_by_role("alert")).to_contain_text("the model has no open dimensions")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate(TOUCHING) == []


@pytest.mark.parametrize("width", [320, 390])
def test_the_bar_has_room_for_the_key(context: BrowserContext, page: Page, width: int) -> None:
    context.add_init_script("sessionStorage.setItem('superopt-key', 'any')")
    page.set_viewport_size({"width": width, "height": 600})
    page.goto("/prove")
    expect(page.get_by_role("button", name="API key")).to_be_visible()
    places = page.evaluate(BAR)
    assert all(left >= before for (_, before), (left, _) in pairwise(places)), places


BAR = """() => [...document.querySelectorAll(".brand, .top nav a, .top-tools button")]
  .filter((one) => one.checkVisibility())
  .map((one) => [one.getBoundingClientRect().left, one.getBoundingClientRect().right])"""
"""Where the parts of the bar at the top begin and end."""


def test_lists_have_a_next_page(page: Page) -> None:
    page.route("**/v1/substitutions?*", lambda route: route.continue_(url=_one_by_one(route.request.url)))
    page.goto("/library")
    page.get_by_role("link", name="Next").click()
    expect(page).to_have_url(re.compile("cursor="))
    expect(page.locator(".rules tbody tr")).to_have_count(1)
    page.get_by_role("link", name="First page").click()
    expect(page.get_by_role("link", name="Next")).to_be_visible()


def _one_by_one(url: str) -> str:
    return re.sub("limit=[0-9]+", "limit=1", url)


def test_colours_follow_the_system_until_one_is_chosen(page: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="dark")
    page.goto("/")
    dark = page.evaluate(ground)
    button = page.get_by_role("button", name="Colours: system")
    button.click()
    page.get_by_role("button", name="Colours: dark").click()
    expect(page.get_by_role("button", name="Colours: light")).to_be_visible()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == light


def test_a_report_of_5000_nodes_opens_at_once(context: BrowserContext, page: Page, finished: str) -> None:
    measured = context.new_cdp_session(page)
    measured.send("Performance.enable")
    page.goto(finished)
    expect(page.locator("#details")).to_be_visible()
    found = {one["name"]: one["value"] for one in measured.send("Performance.getMetrics")["metrics"]}
    assert found["ScriptDuration"] < 1.0
    assert page.evaluate("document.querySelectorAll('*').length") < 8000
    page.get_by_text("The trace: 5,000 steps").click()
    steps = page.get_by_role("region", name="The trace").get_by_role("row")
    expect(steps).to_have_count(101)
    page.get_by_role("button", name=re.compile("Show 100 rows of 4,900")).click()
    expect(steps).to_have_count(201)


def test_a_report_says_at_which_sizes(page: Page, finished: str) -> None:
    page.goto(finished)
    expect(page.locator(".headline")).to_contain_text("at guessed sizes")
    expect(page.locator(".cards")).to_contain_text("batch=1 seq=128")
    expect(page.locator(".cards")).to_contain_text("guessed: seq")
    details = page.locator("#details")
    expect(details).to_contain_text("batch=1 seq=128; batch=2 seq=48")
    expect(details).to_contain_text("--dim seq=128")


def test_of_many_nodes_only_those_around_the_differences_are_drawn(page: Page, finished: str) -> None:
    page.goto(finished)
    page.get_by_role("button", name="Show what differs").click()
    viewer = page.frame_locator("iframe[title^='After']")
    expect(viewer.locator(".superopt-added").first).to_be_visible(timeout=90_000)
    page.get_by_role("button", name="Next difference, After").click()
    expect(page.locator(".side.after [role=status]")).to_have_text(re.compile("^1 of "))


def test_a_plan_is_shown_with_its_timeline_beside_others(page: Page, finished: str) -> None:
    page.goto(finished)
    plan = page.locator("#plan")
    plan.scroll_into_view_if_needed()
    expect(plan).to_contain_text("two-nodes")
    expect(plan.get_by_role("listitem").filter(has_text="data parallel")).to_contain_text("7.00 ms")
    expect(plan.get_by_role("listitem").filter(has_text="device 15")).to_contain_text("15.0 GB of 80.0 GB")
    operators = plan.get_by_role("region", name="Operators").get_by_role("row")
    expect(operators.nth(1)).to_contain_text("sample 2 × reduction 4")
    expect(operators.nth(1)).to_contain_text("0–7")
    expect(operators.nth(1).get_by_role("link")).to_have_attribute("href", f"/library/{'f' * 16}")
    expect(operators.nth(2)).to_contain_text("axiom:partition-of-matmul")
    expect(operators.nth(2).get_by_role("link")).to_have_count(0)
    expect(plan.get_by_role("img", name=re.compile("Timeline of 16 lanes, 5,000 events"))).to_be_visible()


@pytest.fixture(scope="module")
def finished(service: Service, model: Path) -> str:
    """The path of a finished run whose report is large."""
    with service.working("work_functions:large"), httpx.Client(base_url=service.address, timeout=90) as http:
        answer = http.post(
            "/v1/optimizations",
            files={"model": ("large.onnx", model.read_bytes())},
            data={"options": '{"budget": 50, "max_candidates": 50}'},
            headers={"Prefer": "wait=60"},
        )
    assert answer.json()["state"] == "succeeded", answer.text
    return f"/optimizations/{answer.json()['id']}"


def test_a_lost_connection_is_said_and_mended(context: BrowserContext, page: Page) -> None:
    page.goto("/library")
    expect(page.locator(".rules tbody tr")).to_have_count(2)
    context.set_offline(True)
    page.get_by_role("link", name="Runs").click()
    expect(page.get_by_role("status").first).to_contain_text("You are offline")
    context.set_offline(False)
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    expect(page.locator("#connection")).to_be_empty()


def test_a_suspect_rule_is_listed_with_the_evidence(page: Page, service: Service) -> None:
    rule = rule_id(parse_equation(RULES[1]))
    evidence = Evidence("optimize", "net.onnx", "0123456789abcdef" * 4, 7, "output y: NaN in another place")
    service.database.quarantine.record({rule: evidence})
    try:
        page.goto("/library")
        expect(page.locator(".rules tbody tr")).to_have_count(1)
        page.get_by_role("link", name="Suspect", exact=True).click()
        expect(page.locator(".rules tbody tr")).to_contain_text("changed the outputs of a model")
        page.get_by_role("link", name=RULES[1]).click()
        against = page.get_by_role("region", name="Evidence against it")
        for text in ("net.onnx", evidence.sha256, "optimize", "7", evidence.difference):
            expect(against).to_contain_text(text)
    finally:
        service.database.quarantine.dismiss(rule, "the test is over")
    page.reload()
    expect(page.get_by_role("heading", name="Proof")).to_be_visible()
    expect(against).to_have_count(0)


def test_each_problem_is_shown_in_its_own_words(page: Page) -> None:
    page.goto("/optimizations")
    shown = page.get_by_role("alert")
    for type_ in set(ProblemType) - {ProblemType.UNAUTHENTICATED}:  # that one asks for a key
        page.route("**/v1/optimizations?*", answering(type_))
        page.get_by_role("link", name="All", exact=True).click()
        expect(shown).to_contain_text(type_.title)
        expect(shown).to_contain_text(f"the detail of {type_.slug}")
        page.unroute("**/v1/optimizations?*")
    page.get_by_role("button", name="Try again").click()
    expect(shown).to_have_count(0)


def answering(type_: ProblemType) -> Callable[[Route], None]:
    """Answers requests with a problem of that type."""
    document = type_.document(f"the detail of {type_.slug}")
    media_type = "application/problem+json"
    return lambda route: route.fulfill(status=type_.status, json=document, content_type=media_type)


def test_the_same_upload_is_sent_with_its_name_once(page: Page, submitted: Callable[..., str]) -> None:
    with page.expect_request(lambda request: request.method == "POST") as sent:
        submitted(budget="48")
    assert re.fullmatch("[0-9a-f]{32}", sent.value.headers["idempotency-key"])


def test_a_key_is_asked_for_and_kept_in_the_tab(page: Page, service: Service) -> None:
    secret = service.database.keys.create("page").token
    page.goto("/library")
    dialog = page.get_by_role("dialog", name="API key")
    dialog.get_by_label("Key").fill("wrong")
    dialog.get_by_role("button", name="Use this key").click()
    expect(dialog).to_contain_text("does not know this key")
    dialog.get_by_label("Key").fill(secret)
    page.keyboard.press("Enter")
    expect(page.locator(".rules tbody tr")).to_have_count(2)
    page.reload()
    expect(page.locator(".rules tbody tr")).to_have_count(2)
    page.get_by_role("button", name="API key").click()
    page.get_by_role("button", name="Forget the key").click()
    page.reload()
    expect(dialog).to_be_visible()
