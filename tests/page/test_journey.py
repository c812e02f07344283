"""Through the page as people go: from a dropped model to its report, the library, a proof."""

from __future__ import annotations

import re
from collections.abc import Callable

import onnx
from playwright.sync_api import Page, expect

from tests.page.conftest import Service


def test_a_model_is_dropped_and_its_report_is_read(
    service: Service, page: Page, submitted: Callable[..., str]
) -> None:
    with service.working():
        address = submitted()
        expect(page.get_by_role("heading", name="branches.onnx")).to_be_visible()
        expect(page.get_by_text("Best predicted cost")).to_be_visible()
        expect(page.locator(".why")).to_contain_text("Equal, and measured", timeout=60_000)
        expect(page.locator(".headline")).to_contain_text("as fast as the original")
    expect(page).to_have_title("branches.onnx · superopt")
    applied = page.locator("#applied")
    expect(applied.get_by_role("row").nth(1)).to_contain_text("matmul(x, add(y, z))")
    applied.get_by_text("Drawing").click()
    expect(applied.locator("svg.drawing .operator")).to_have_count(5)
    page.locator("#regions").scroll_into_view_if_needed()
    expect(page.locator("#regions svg.drawing").first).to_be_visible()
    expect(page.locator("#cost svg.plot .line")).to_be_visible()

    with page.expect_download() as model:
        page.get_by_role("button", name="Model").click()
    assert model.value.suggested_filename == "branches-optimized.onnx"
    onnx.checker.check_model(str(model.value.path()))
    with page.expect_download() as report:
        page.get_by_role("button", name="Report, HTML").click()
    assert "as fast as the original" in report.value.path().read_text()

    page.get_by_role("button", name="Show both graphs").click()
    for side, marked in (("Before", "removed"), ("After", "added")):
        viewer = page.frame_locator(f"iframe[title^='{side}']")
        expect(viewer.locator(f".superopt-{marked}").first).to_be_visible(timeout=90_000)
    expect(page.get_by_text("taken away").first).to_be_visible()

    page.get_by_role("link", name="Runs").first.click()
    runs = page.get_by_role("table", name="Runs")
    for heading in ("Model", "State", "Objective", "Result", "Submitted", "Took"):
        expect(runs.get_by_role("columnheader", name=heading)).to_be_visible()
    expect(runs.get_by_role("row", name="Succeeded")).to_contain_text(
        re.compile(r"branches\.onnx.*\d\.\d\d×")
    )
    page.go_back()
    page.wait_for_url(address)
    expect(page.locator(".headline")).to_be_visible()
    page.reload()
    expect(page.locator(".headline")).to_be_visible()


def test_a_run_is_watched_and_cancelled(service: Service, page: Page, submitted: Callable[..., str]) -> None:
    with service.working("work_functions:wait_until_cancelled"):
        submitted(budget="50")
        expect(page.locator(".live-delta")).to_contain_text("from 1.00 ms")
        expect(page.locator(".live .plot .line")).to_be_visible()
        expect(page.locator(".stages [aria-current=step]")).to_have_text("Search")
        page.reload()
        expect(page.locator(".live-delta")).to_contain_text("%")
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    page.goto("/optimizations?state=cancelled")
    cancelled = page.get_by_role("row", name="branches.onnx")
    expect(cancelled).to_have_count(1)
    expect(cancelled.locator(".run-gain")).to_be_empty()
    page.get_by_role("link", name="Crashed").click()
    expect(page.get_by_text("No runs in this state")).to_be_visible()


def test_a_failure_is_told_as_it_is(service: Service, page: Page, submitted: Callable[..., str]) -> None:
    with service.working("work_functions:refuse"):
        submitted(budget="49")
        expect(page.get_by_role("heading", name=re.compile("model cannot be read"))).to_be_visible()
        expect(page.get_by_text("expected rank 4, got 2 <b>bold</b>")).to_be_visible()


def test_the_library_is_searched_and_a_rule_read(page: Page) -> None:
    page.goto("/library")
    rules = page.locator(".rules tbody tr")
    expect(rules).to_have_count(2)
    families = page.get_by_role("navigation", name="Families of operators")
    expect(families.get_by_role("link")).to_have_text(
        [re.compile(text) for text in ("^All", "^Activation1 rule", "^Arithmetic1 rule", "^Matrix1 rule")]
    )
    families.get_by_role("link", name="Matrix").click()
    expect(rules).to_have_count(1)
    expect(page).to_have_url(re.compile("family=matrix"))
    families.get_by_role("link", name="All").click()
    expect(rules).to_have_count(2)
    page.get_by_label("Text in the equation").fill("relu(relu")
    expect(rules).to_have_count(1)
    expect(page).to_have_url(re.compile(r"q=relu%28relu"))
    page.get_by_role("link", name="All", exact=True).click()
    page.get_by_label("Text in the equation").fill("")
    expect(rules).to_have_count(3)
    page.get_by_label("Operator", exact=True).fill("matmul")
    expect(rules).to_have_count(1)
    rules.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Rule", exact=True)).to_be_focused()
    expect(page.locator("svg.drawing .operator")).to_have_count(5)
    expect(page.get_by_text(re.compile("Axioms used: [1-9]"))).to_be_visible()
    expect(page.get_by_text("Shapes it was executed on")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Operator", exact=True)).to_have_value("matmul")


def test_the_api_is_read(page: Page, service: Service) -> None:
    page.goto("/docs")
    operations = page.locator("#optimizations details.operation")
    expect(operations).to_have_count(7)
    operations.filter(has_text="Accept a model").locator("summary").click()
    submit = operations.filter(has_text="Accept a model")
    expect(submit.get_by_role("row", name="Idempotency-Key").first).to_contain_text("header")
    expect(submit.get_by_role("row", name="model").first).to_contain_text("The ONNX model.")
    expect(submit.get_by_role("row", name="507")).to_contain_text("Not enough disk space")
    expect(submit.locator("pre")).to_contain_text("-F model=@net.onnx \\\n  -F 'options={")
    expect(submit.locator("pre")).to_contain_text(f"{service.address}/v1/optimizations")
    submit.get_by_role("link", name="OptimizationDocument").first.click()
    schema = page.locator("#schema-OptimizationDocument")
    expect(schema.get_by_role("row", name="reused_from")).to_be_visible()
    expect(page.locator("#schema-OptimizationOptions")).not_to_have_attribute("open", "")


def test_people_at_an_unknown_address_get_a_page_with_a_way_back(page: Page) -> None:
    page.goto("/no/such/<b>place</b>")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.locator("main")).to_contain_text("There is nothing at /no/such/<b>place</b>")
    page.get_by_role("link", name="Back to superopt").click()
    expect(page.get_by_role("heading", name="Optimise a model")).to_be_visible()


def test_an_equation_is_proved_refuted_or_cannot_be_read(page: Page) -> None:
    page.goto("/prove")
    equation = page.get_by_label("Equation", exact=True)
    prove = page.get_by_role("button", name="Prove", exact=True)
    equation.fill("relu(relu(x)) => relu(x)")
    expect(page.locator("svg.drawing .operator")).to_have_count(3)
    equation.press("Control+Enter")
    expect(page.get_by_role("heading", name="Proved")).to_be_visible()
    expect(page.get_by_role("heading", name="Counterexample")).to_have_count(0)
    expect(page.get_by_role("link", name=re.compile("^rule [0-9a-f]+$"))).to_be_visible()
    equation.fill("matmul(x, y) => matmul(y, x)")
    prove.click()
    expect(page.get_by_role("heading", name="Refuted")).to_be_visible()
    expect(page.get_by_role("heading", name="Counterexample")).to_be_visible()
    expect(page.locator(".judged")).not_to_contain_text("Counterexample.")
    equation.fill("relu(x => x")
    expect(page.locator("#equation-wrong")).not_to_be_empty()
    expect(equation).to_have_attribute("aria-invalid", "true")
    prove.click()
    expect(page.get_by_role("alert")).to_contain_text("The equation cannot be parsed")
