"""Equations with bilinear algorithms on the page: abbreviated as the command line does, and in full."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from superopt.equations import abbreviated
from tests.equations.test_abbreviation import CASES
from tests.page.conftest import Service
from tests.page.work_functions import by_algorithms

FULL = by_algorithms()
SHORT = abbreviated(FULL)
ABBREVIATED = """async (texts) => {
  const { abbreviated } = await import("/page/files/js/format.js");
  return texts.map(abbreviated);
}"""


def test_the_page_abbreviates_as_the_command_line_does(page: Page) -> None:
    page.goto("/prove")
    assert page.evaluate(ABBREVIATED, list(CASES)) == list(CASES.values())


def test_a_report_abbreviates(service: Service, page: Page, submitted: Callable[..., str]) -> None:
    with service.working("work_functions:by_algorithm"):
        submitted(budget="21")
        expect(page.locator(".headline")).to_be_visible(timeout=60_000)
    applied = page.locator("#applied")
    expect(applied.get_by_role("row").nth(1)).to_contain_text(SHORT)
    applied.get_by_text("Drawing").click()
    expect(applied.locator("svg.drawing")).to_contain_text("rows=F(2,2)")
    expect(applied.get_by_role("img")).to_have_attribute("aria-label", f"Drawing of {SHORT}")
    page.locator("#details").get_by_text("The trace").click()
    expect(page.locator("#details").get_by_role("table", name="The trace")).to_contain_text(SHORT)
    assert "(((" not in page.inner_text("main")


@pytest.mark.parametrize("width", [390, 1440])
def test_a_proof_abbreviates_and_has_the_equation_in_full(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"/prove?{urlencode({'equation': FULL})}")
    page.get_by_role("button", name="Prove", exact=True).click()
    judged = page.locator(".judged")
    expect(judged.get_by_role("heading", name="Proved")).to_be_visible(timeout=60_000)
    expect(judged.locator("pre").first).to_have_text(SHORT)
    judged.get_by_text("In full").click()
    expect(judged.get_by_text(FULL, exact=True)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
