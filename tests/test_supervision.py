"""The main job answers in time whatever happens in its process: the original comes out, with the reason."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest

import superopt
from superopt.cli.main import run
from superopt.equations import parse_equation, rule_id
from superopt.errors import InvalidOptionError
from superopt.journeys.supervision import run_job
from superopt.substitution_db import CandidateRule, open_database
from tests.supervision_kit import BUDGET, HERE, job_about, small_network


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(small_network(np.ones((4, 4), np.float32)), path)
    return path


@pytest.mark.parametrize(
    ("function", "why", "is_broken"),
    [
        ("loop", "the budget of 0.5 s was overrun: stopped after", False),
        ("hang_with_the_lock", "the budget of 0.5 s was overrun: stopped after", False),
        ("hang_while_writing", "the budget of 0.5 s was overrun: stopped after", False),
        ("crash", "internal error, please report it: the process was ended by SIGSEGV", True),
        ("have_a_bug", "internal error, please report it: ZeroDivisionError: a bug", True),
    ],
)
def test_the_original_comes_out_with_the_reason(
    model: Path,
    function: str,
    why: str,
    is_broken: bool,  # noqa: FBT001
) -> None:
    job = job_about(model, function)
    outcome = run_job(job)
    assert outcome.answer is None
    assert outcome.is_broken is is_broken
    assert str(outcome.report["why"]).startswith(why)
    assert model.with_name("out.onnx").read_bytes() == model.read_bytes()
    assert json.loads(job.reports[0].read_text()) == outcome.report
    assert sorted(path.name for path in model.parent.iterdir()) == ["net.onnx", "out.onnx", "report.json"]


def test_a_bug_while_a_step_is_built_is_an_internal_error(model: Path) -> None:
    job = job_about(model, "have_a_bug")
    step = replace(job, options={**job.options, "objective": "training"})
    said = r"^net\.onnx: the training step could not be built: ZeroDivisionError: a bug"
    with pytest.raises(RuntimeError, match=said):
        run_job(step)


def test_a_limit_that_was_not_looked_at_is_told_of(model: Path) -> None:
    job = job_about(model, "loop")
    limited = replace(job, options={**job.options, "memory_limit": 1000})
    why = str(run_job(limited).report["why"])
    assert why.endswith("no order of its operators within the memory limit was found by then")


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("hang_at_a_page", r"the budget of 0\.5 s was overrun: .*, in the phase 'writing reports'"),
        (
            "crash_at_a_page",
            "internal error, please report it: the process was ended by SIGSEGV, in the phase",
        ),
        ("fail_at_a_page", r"report\.html: cannot be written: no room"),
    ],
)
def test_a_written_model_stays_where_a_report_fails(model: Path, function: str, why: str) -> None:
    """Only what is missing is named; no budget is lost with it."""
    written, missing = model.with_name("report.json"), model.with_name("report.html")
    outcome = run_job(job_about(model, function, reports=(written, missing)))
    assert model.with_name("out.onnx").read_bytes() == b"optimised"
    assert outcome.report["why"] == "faster"
    assert not outcome.is_broken
    assert list(outcome.missing) == [missing]
    assert re.match(why, outcome.missing[missing])
    assert written.exists()
    assert not missing.exists()


def test_the_command_line_names_the_report_that_is_missing(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("superopt.cli.commands.optimize.FUNCTION", f"{HERE}:hang_at_a_page")
    out, written, missing = (model.with_name(name) for name in ("out.onnx", "r.json", "r.html"))
    reports = ["--report", str(written), "--report", str(missing)]
    assert run(["optimize", str(model), "-o", str(out), "--budget", str(BUDGET), *reports]) == 0
    assert out.read_bytes() == b"optimised"
    said = capsys.readouterr()
    assert said.out == f"returned  optimized: faster\n\nwritten: {out}, report: {written}\n"
    assert said.err.startswith(
        f"superopt: warning: {missing} was not written: the budget of 0.5 s was overrun"
    )


def test_the_original_comes_out_where_its_page_takes_too_long(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("superopt.journeys.supervision._PAGE_SECONDS", 0.0)
    page, written = model.with_name("report.html"), model.with_name("report.json")
    outcome = run_job(job_about(model, "loop", reports=(page, written)))
    assert model.with_name("out.onnx").read_bytes() == model.read_bytes()
    assert outcome.missing == {page: "rendering took more than 0 s"}
    assert json.loads(written.read_text()) == outcome.report


def test_a_rule_is_suspect_although_the_process_that_said_so_died(model: Path) -> None:
    database = str(model.with_name("rules.db"))
    equation = parse_equation("relu(relu(x)) => relu(x)")
    with open_database(database) as opened:
        opened.rules.add_candidates([CandidateRule(equation, "test")])
    extras = {"rule": rule_id(equation)}
    outcome = run_job(job_about(model, "accuse_and_crash", database=database, extras=extras, budget=20.0))
    suspects = [
        {"rule": rule_id(equation), "equation": "relu(relu(x)) => relu(x)", "difference": "output y: NaN"}
    ]
    assert outcome.report["suspects"] == suspects
    with open_database(database) as opened:
        (evidence,) = opened.quarantine.evidence(rule_id(equation))
    assert (evidence.found_by, evidence.model, evidence.difference) == (
        "optimize",
        "net.onnx",
        "output y: NaN",
    )
    assert evidence.sha256 == hashlib.sha256(model.read_bytes()).hexdigest()


def test_the_reason_names_the_phase_and_the_report_what_is_known(model: Path) -> None:
    report = run_job(job_about(model, "loop")).report
    assert str(report["why"]).endswith("in the phase 'search'")
    assert report["search"] == {
        "strategy": "auto",
        "seconds": pytest.approx(report["search"]["seconds"]),  # type: ignore[index]
        "candidates": 7,
        "best_at_seconds": 0.0,
        "stopped_by": "budget",
        "curve": [],
        "reserved_seconds": 0.0,
    }
    assert report["cost"] == {"unit": "us", "source": "analytic", "before": 2.5, "after": 2.5}


def test_the_report_has_the_fields_of_any_other(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in for a report is written without the code that writes reports."""
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", f"sqlite:///{model.with_name('superopt.db')}")
    path = model.with_name("usual.json")
    arguments = [
        "optimize",
        str(model),
        "--budget",
        "120",
        "--max-candidates",
        "1",
        "--objective",
        "flops",
        "--report",
        str(path),
    ]
    assert run([*arguments, "--dry-run", "-o", str(model.with_name("out.onnx"))]) == 0
    usual, stand_in = json.loads(path.read_text()), run_job(job_about(model, "crash")).report
    assert list(stand_in) == list(usual)
    for section in ("model", "rules", "cost", "sizes", "equivalence", "search"):
        assert set(stand_in[section]) == set(usual[section])  # type: ignore[arg-type]
    assert stand_in["model"]["sha256"] == usual["model"]["sha256"]  # type: ignore[index]


def test_an_error_of_the_user_is_raised_as_it_was(model: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"^target: expected cpu or cuda, got abacus$"):
        run_job(job_about(model, "refuse"))
    assert not model.with_name("out.onnx").exists()


def test_what_a_killed_process_leaves_is_removed(model: Path) -> None:
    told: list[dict[str, object]] = []
    outcome = run_job(job_about(model, "leave_files"), told.append)
    assert "ended by SIGKILL, perhaps for want of memory" in str(outcome.report["why"])
    assert not Path(str(told[0]["file"])).exists()


def test_a_callback_that_raises_ends_the_process(model: Path) -> None:
    pids: list[object] = []

    def stop(state: dict[str, object]) -> None:
        pids.append(state["pid"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(job_about(model, "read"), stop)
    assert not psutil.pid_exists(int(str(pids[0])))
    assert not model.with_name("out.onnx").exists()


def test_a_bug_in_a_body_is_an_internal_error(model: Path) -> None:
    outcome = run_job(job_about(model, "fail_in_a_body", budget=30.0))
    assert (outcome.is_broken, outcome.report["why"]) == (True, "faster")
    assert outcome.failure == "internal error, please report it: ZeroDivisionError: a bug"


def test_a_file_that_is_not_complete_is_removed(model: Path) -> None:
    """Whatever ends the process: here the user, in the middle of writing."""
    seen: list[bool] = []

    def stop(state: dict[str, object]) -> None:
        seen.append(Path(str(state["part"])).exists())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(job_about(model, "say_and_hang_while_writing", budget=30.0), stop)
    assert seen == [True]
    assert [path.name for path in model.parent.iterdir()] == ["net.onnx"]


def test_a_function_is_asked_for_what_it_has(model: Path) -> None:
    told: list[dict[str, object]] = []
    outcome = run_job(job_about(model, "wait_for_the_end", budget=60.0), told.append, lambda: bool(told))
    assert outcome.report["why"] == "asked for what there is"


@pytest.mark.parametrize(("function", "code"), [("hang_with_the_lock", 0), ("crash", 5)])
def test_the_command_line_writes_the_original(
    model: Path,
    function: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("superopt.cli.commands.optimize.FUNCTION", f"{HERE}:{function}")
    out = model.with_name("out.onnx")
    assert run(["optimize", str(model), "-o", str(out), "--budget", str(BUDGET)]) == code
    assert out.read_bytes() == model.read_bytes()
    assert "returned  original: " in capsys.readouterr().out


def _is_over(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_an_optimization_that_is_told_to_end_leaves_nothing(model: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    program = (
        "from superopt.cli import main; from superopt.cli.commands import optimize as o; o.FUNCTION = "
        f"'{HERE}:hang_with_the_lock'; main(['optimize', '{model}', '-o', '{model.with_name('o')}'])"
    )
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": os.pathsep.join(sys.path)}
    running = subprocess.Popen([sys.executable, "-c", program], env=environment)
    process = psutil.Process(running.pid)
    while not process.children():
        assert running.poll() is None
    (child,) = process.children()
    running.terminate()
    assert running.wait(60) == 128 + signal.SIGTERM
    while not _is_over(child):
        running.poll()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("function", ["hang_with_the_lock", "crash"])
def test_python_gets_the_original(model: Path, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("superopt.journeys.python.OPTIMIZE", f"{HERE}:{function}")
    result = superopt.optimize(model.read_bytes(), budget=BUDGET)
    assert result.to_bytes() == model.read_bytes()
    assert result.report.returned == "original"
    assert result.report.why
    assert result.report.model.nodes_before == 2
    json.dumps(result.to_json())
