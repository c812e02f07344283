"""Wherever discovery runs and however often it is stopped, its candidates are the same; no work is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from superopt.errors import InvalidOptionError, MissingServiceError
from superopt.generator import (
    Checkpoint,
    Generation,
    dask,
    fresh_work,
    generate,
    in_process,
    processes,
    resumed_work,
)
from superopt.generator.enumerate import enumeration
from superopt.generator.run.tasks import Tasks
from tests.generator.runs import PART_PAIRS, deadly, essence, fail, in_small_parts, kill_half_way, preset

TASKS = 11
"""Three stages, and their parts."""


@cache
def here() -> Generation:
    """The generation of one process, in large parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enumeration, "PART_PAIRS", 1 << 22)
        return generate(preset(), max_ops=2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Dask scheduler with two worker processes."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        local_directory=str(tmp_path_factory.mktemp("dask")),
    ) as started:
        yield started.scheduler_address


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stage has several parts."""
    monkeypatch.setattr(enumeration, "PART_PAIRS", PART_PAIRS)


@pytest.mark.parametrize("dying", [1, 4])
@pytest.mark.usefixtures("small_parts")
def test_two_processes_find_the_same_although_one_is_killed(tmp_path: Path, dying: int) -> None:
    with processes(2) as workers:
        small = deadly(in_small_parts(workers), tmp_path / "dead", dying)
        made = generate(preset(), max_ops=2, workers=small)
    assert (tmp_path / "dead").exists()
    assert essence(made) == essence(here())


@pytest.mark.usefixtures("small_parts")
def test_a_dask_cluster_finds_the_same_although_a_worker_is_killed(cluster: str, tmp_path: Path) -> None:
    with dask(cluster) as workers:
        small = deadly(in_small_parts(workers), tmp_path / "dead", 4)
        made = generate(preset(), max_ops=2, workers=small)
    assert (tmp_path / "dead").exists()
    assert essence(made) == essence(here())


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.usefixtures("small_parts")
def test_a_killed_run_is_taken_up(tmp_path: Path, jobs: int) -> None:
    assert kill_half_way(tmp_path, jobs) == signal.SIGKILL
    with resumed_work(tmp_path) as checkpoints:
        made = generate(preset(), max_ops=2, checkpoints=checkpoints)
        assert 4 <= made.resumed < TASKS
        assert essence(made) == essence(here())
    assert not list(tmp_path.iterdir())


def test_without_resuming_what_is_left_is_discarded(tmp_path: Path) -> None:
    kill_half_way(tmp_path, 1)
    with fresh_work(tmp_path) as checkpoints:
        assert generate(preset(), max_ops=2, checkpoints=checkpoints).resumed == 0


def test_a_finished_generation_waits_for_the_others_of_its_command(tmp_path: Path) -> None:
    with suppress(KeyboardInterrupt), fresh_work(tmp_path) as checkpoints:
        generate(preset(), max_ops=2, checkpoints=checkpoints)
        raise KeyboardInterrupt
    with resumed_work(tmp_path) as checkpoints:
        made = generate(preset(), max_ops=2, checkpoints=checkpoints)
    assert made.resumed == 3
    assert essence(made) == essence(here())


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def change_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def replace_by_another(path: Path) -> None:
    path.write_bytes(path.with_name("other.result").read_bytes())


def lose(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("spoil", [cut_short, empty, change_a_bit, replace_by_another, lose])
def test_what_is_spoilt_on_disk_is_no_result(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    checkpoint = Checkpoint(tmp_path / "run")
    checkpoint.store("one", [1])
    checkpoint.store("other", [2])
    assert checkpoint.load("one") == [1]
    spoil(tmp_path / "run" / "one.result")
    assert checkpoint.load("one") is None
    assert checkpoint.load("other") == [2]
    checkpoint.close()


def test_a_result_of_another_run_is_none(tmp_path: Path) -> None:
    one, other = Checkpoint(tmp_path / "one"), Checkpoint(tmp_path / "other")
    one.store("task", 1)
    (tmp_path / "one" / "task.result").replace(tmp_path / "other" / "task.result")
    assert other.load("task") is None
    one.close()
    other.close()


@pytest.mark.usefixtures("small_parts")
def test_spoilt_results_are_computed_again(tmp_path: Path) -> None:
    kill_half_way(tmp_path, 1)
    (part,) = tmp_path.glob("*/stage-1-part-1.result")
    cut_short(part)
    with resumed_work(tmp_path) as checkpoints:
        made = generate(preset(), max_ops=2, checkpoints=checkpoints)
    assert made.resumed == 3
    assert essence(made) == essence(here())


def test_two_runs_do_not_share_a_directory(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "run")
    with pytest.raises(InvalidOptionError, match="run: another process uses this run"):
        Checkpoint(tmp_path / "run")
    checkpoint.close()
    Checkpoint(tmp_path / "run").remove()


def test_a_task_that_kills_every_worker_is_given_up() -> None:
    with processes(1) as workers, pytest.raises(MissingServiceError, match="workers keep dying at culprit 0"):
        list(Tasks(workers).map("culprit", fail, ["die"]))


def test_what_a_task_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="wrong"):
        list(Tasks(in_process()).map("culprit", fail, ["wrong"]))
    with processes(1) as workers, pytest.raises(ValueError, match="wrong"):
        list(Tasks(workers).map("culprit", fail, ["wrong"]))
