from __future__ import annotations

import hashlib
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import update

from superopt.errors import MissingServiceError
from superopt.server.problem_types import ProblemType
from superopt.substitution_db import Database, open_database
from superopt.substitution_db.jobs.queue import JobQueue, LeaseLostError
from superopt.substitution_db.jobs.repository import NewJob, QueueFullError
from superopt.substitution_db.jobs.submissions import Submission
from superopt.substitution_db.store.models import JobRow
from superopt.substitution_db.store.records import Job, JobFile, JobRole, JobState, KnownResult, Lease

CONTENTS = (b"model", b"result", b"report")
MODEL, RESULT, REPORT = (
    JobFile(role, "model.onnx", hashlib.sha256(content).hexdigest(), len(content))
    for role, content in zip((JobRole.MODEL, JobRole.RESULT, JobRole.REPORT), CONTENTS, strict=True)
)
PROBLEM = {"type": "out-of-memory", "title": "Out of memory"}


@pytest.fixture(autouse=True)
def _stored(database: Database) -> None:
    for content in CONTENTS:
        database.blobs.put_bytes(content)


class Clock:
    """A clock that goes when it is told."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def submitted(database: Database, attempts: int = 2) -> Job:
    return database.jobs.submit(NewJob("model", [MODEL], {"alpha": 1.05}, max_attempts=attempts))


def state(database: Database, job: Job) -> JobState:
    stored = database.jobs.get(job.id)
    assert stored is not None
    return stored.state


def claimed(queue: JobQueue) -> Lease:
    lease = queue.claim()
    assert lease is not None
    return lease


def history(database: Database, job: Job) -> list[str]:
    return [str(event.content["state"]) for event in database.jobs.events(job.id) if event.kind == "state"]


def test_a_job_succeeds(database: Database) -> None:
    job = submitted(database)
    queue = database.queue("w1")
    lease = claimed(queue)
    assert queue.claim() is None
    assert queue.report_progress(lease, {"candidates": 10}) is JobState.RUNNING
    done = queue.succeed(lease, [RESULT])
    assert (done.state, done.progress, done.file(JobRole.RESULT)) == ("succeeded", {"candidates": 10}, RESULT)
    assert done.finished_at is not None
    assert (done.options, done.file(JobRole.MODEL)) == ({"alpha": 1.05}, MODEL)
    assert history(database, job) == ["queued", "running", "succeeded"]
    assert queue.leases() == frozenset()


def test_jobs_are_claimed_in_order(database: Database) -> None:
    jobs = [submitted(database) for _ in range(3)]
    queue = database.queue("w1")
    assert [claimed(queue).job.id for _ in jobs] == [job.id for job in jobs]


def test_a_worker_leaves_a_job_for_which_it_has_no_device(database: Database) -> None:
    targets: tuple[object, ...] = ("cuda", "cpu", None, "h100")
    jobs = [database.jobs.submit(NewJob("model", [MODEL], {"target": target})).id for target in targets]
    without, with_ = database.queue("w1", targets=("cpu",)), database.queue("w2", targets=("cpu", "cuda"))
    assert [claimed(without).job.id for _ in jobs[1:]] == jobs[1:]
    assert without.claim() is None
    assert claimed(with_).job.id == jobs[0]


@pytest.mark.parametrize(
    ("end", "final"),
    [
        ("succeed", JobState.CANCELLED),
        ("fail", JobState.FAILED),
        ("cancelled", JobState.CANCELLED),
        ("lost_process", JobState.CANCELLED),
        ("give_back", JobState.CANCELLED),
    ],
)
def test_a_running_job_is_cancelled_cooperatively(database: Database, end: str, final: JobState) -> None:
    job = submitted(database)
    queue = database.queue("w1")
    lease = claimed(queue)
    cancelling = database.jobs.cancel(job.id)
    assert cancelling is not None
    assert cancelling.state is JobState.CANCELLING
    assert queue.heartbeat(lease) is JobState.CANCELLING
    arguments = {"succeed": [[RESULT]], "fail": [PROBLEM], "lost_process": [PROBLEM]}.get(end, [])
    assert getattr(queue, end)(lease, *arguments).state is final
    assert database.jobs.cancel(job.id) == database.jobs.get(job.id)


def test_a_waiting_job_is_cancelled_at_once(database: Database) -> None:
    job = submitted(database)
    database.jobs.cancel(job.id)
    assert state(database, job) is JobState.CANCELLED
    assert database.queue("w1").claim() is None
    assert database.jobs.cancel("unknown") is None


def test_a_lost_worker_is_replaced_and_cannot_interfere(database: Database) -> None:
    job = submitted(database, attempts=2)
    dead = database.queue("dead")
    lost = claimed(dead)
    clock = Clock()
    heir = database.queue("heir", clock=clock)
    assert heir.claim() is None
    clock.time += 31
    lease = claimed(heir)
    assert lease.job.id == job.id
    for act in (
        lambda: dead.heartbeat(lost),
        lambda: dead.report_progress(lost, {}),
        lambda: dead.succeed(lost, [RESULT]),
        lambda: dead.fail(lost, PROBLEM),
        lambda: dead.give_back(lost),
    ):
        with pytest.raises(LeaseLostError, match="worker dead no longer holds"):
            act()
    assert heir.succeed(lease, [RESULT]).state is JobState.SUCCEEDED
    assert history(database, job) == ["queued", "running", "queued", "running", "succeeded"]


@pytest.mark.parametrize("sign", ["heartbeat", "progress"])
def test_signs_of_life_keep_a_lease(database: Database, sign: str) -> None:
    submitted(database)
    queue = database.queue("alive")
    lease = claimed(queue)
    clock = Clock()
    other = database.queue("other", clock=clock)
    for _ in range(10):
        assert other.expire() == 0
        clock.time += 25
        if sign == "heartbeat":
            queue.heartbeat(lease)
        else:
            queue.report_progress(lease, {})
    assert other.expire() == 0
    clock.time += 31
    assert other.expire() == 1


@pytest.mark.parametrize("year", [1970, 2500])
def test_leases_do_not_care_about_the_date(database: Database, year: int) -> None:
    job = submitted(database)
    queue = database.queue("alive")
    lease = claimed(queue)
    clock = Clock()
    other = database.queue("other", clock=clock)
    assert other.expire() == 0
    wrong = datetime(year, 1, 1, tzinfo=UTC)  # as a worker whose clock has jumped would write
    with database.transactions.write() as session:
        session.execute(update(JobRow).values(heartbeat_at=wrong, lease_expires_at=wrong))
    clock.time += 31
    assert other.expire() == 0
    assert queue.heartbeat(lease) is JobState.RUNNING
    clock.time += 31
    assert other.expire() == 0
    clock.time += 31
    assert other.expire() == 1
    assert state(database, job) is JobState.QUEUED


def test_attempts_are_bounded(database: Database) -> None:
    job = submitted(database, attempts=2)
    queue = database.queue("w1")
    assert queue.lost_process(claimed(queue), PROBLEM).state is JobState.QUEUED
    crashed = queue.lost_process(claimed(queue), PROBLEM)
    assert (crashed.state, crashed.error) == (JobState.CRASHED, PROBLEM)
    by_silence = submitted(database, attempts=1)
    claimed(database.queue("dead"))
    clock = Clock()
    other = database.queue("other", clock=clock)
    assert other.expire() == 0
    clock.time += 31
    assert other.expire() == 1
    assert state(database, by_silence) is JobState.CRASHED
    stored = database.jobs.get(by_silence.id)
    assert stored is not None
    assert stored.error is not None
    detail = "the worker dead stopped sending heartbeats"
    assert stored.error == ProblemType.WORKER_LOST.document(detail)
    assert state(database, job) is JobState.CRASHED


def test_a_result_is_found_again(database: Database) -> None:
    first = submitted(database)
    queue = database.queue("w1")
    queue.succeed(claimed(queue), [RESULT, REPORT], "key")
    assert database.jobs.result("other key") is None
    earlier = database.jobs.result("key")
    assert earlier is not None
    known = KnownResult(earlier.id, "key", (RESULT, REPORT))
    second = database.jobs.submit(NewJob("model", [MODEL], known=known), queue_limit=0)
    assert (second.state, second.reused_from, second.attempts) == (JobState.SUCCEEDED, first.id, 0)
    assert (second.file(JobRole.RESULT), second.file(JobRole.REPORT)) == (RESULT, REPORT)
    assert history(database, second) == ["queued", "succeeded"]
    third = submitted(database)
    assert queue.reuse(claimed(queue), known).reused_from == first.id
    assert history(database, third) == ["queued", "running", "succeeded"]
    database.jobs.remove_finished(-1)
    assert database.jobs.result("key") is None


def test_a_result_whose_blob_is_gone_is_computed_again(database: Database) -> None:
    gone = JobFile(JobRole.RESULT, "model.onnx", "f" * 64, 1)
    job = database.jobs.submit(NewJob("model", [MODEL], known=KnownResult("earlier", "key", (gone,))))
    assert (job.state, job.reused_from) == (JobState.QUEUED, None)


def test_no_job_refers_to_a_blob_that_is_gone(database: Database) -> None:
    gone = JobFile(JobRole.MODEL, "model.onnx", "f" * 64, 1)
    with pytest.raises(MissingServiceError, match="send it again"):
        database.jobs.submit(NewJob("model", [gone]))
    job = submitted(database)
    queue = database.queue("w1")
    lease = claimed(queue)
    with pytest.raises(MissingServiceError, match="were removed"):
        queue.succeed(lease, [gone])
    assert state(database, job) is JobState.RUNNING


def test_no_blob_is_removed_while_a_job_begins_to_use_it(database: Database) -> None:
    order: list[str] = []

    def submit() -> None:
        submitted(database)
        order.append("submitted")

    with database.jobs.unused([MODEL.sha256, RESULT.sha256]) as unused:
        assert unused == {MODEL.sha256, RESULT.sha256}
        thread = threading.Thread(target=submit)
        thread.start()
        thread.join(timeout=0.2)
        order.append("removed")
    thread.join()
    assert order == ["removed", "submitted"]
    with database.jobs.unused([MODEL.sha256, RESULT.sha256]) as unused:
        assert unused == {RESULT.sha256}


def test_giving_back_costs_no_attempt(database: Database) -> None:
    submitted(database, attempts=1)
    queue = database.queue("w1")
    for _ in range(3):
        assert queue.give_back(claimed(queue)).state is JobState.QUEUED
    assert claimed(queue).job.attempts == 1


def test_two_workers_never_get_the_same_job(database: Database, database_url: str, no_library: Path) -> None:
    jobs = {submitted(database).id for _ in range(30)}
    got: list[str] = []

    def work(name: str) -> None:
        with open_database(database_url, library=no_library) as mine:
            queue = mine.queue(name)
            while (lease := queue.claim()) is not None or state_left(mine):
                if lease is not None:
                    got.append(lease.job.id)
                    queue.succeed(lease, [RESULT])

    def state_left(mine: Database) -> bool:
        return mine.jobs.counts()[JobState.QUEUED] > 0

    workers = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(got) == sorted(jobs)
    assert database.jobs.counts()[JobState.SUCCEEDED] == 30


def test_jobs_are_listed_newest_first(database: Database) -> None:
    jobs = [submitted(database) for _ in range(3)]
    database.jobs.cancel(jobs[1].id)
    assert [job.id for job in database.jobs.list()] == [job.id for job in reversed(jobs)]
    assert [job.id for job in database.jobs.list(state=JobState.QUEUED)] == [jobs[2].id, jobs[0].id]
    assert [job.id for job in database.jobs.list(before=jobs[2].number, limit=1)] == [jobs[1].id]
    assert database.jobs.counts()[JobState.QUEUED] == 2


def test_the_queue_is_bounded(database: Database) -> None:
    submitted(database)
    with pytest.raises(QueueFullError, match="the queue is full: 1 jobs"):
        database.jobs.submit(NewJob("model", [MODEL]), queue_limit=1)


def test_events_continue_behind_an_id(database: Database) -> None:
    job = submitted(database)
    queue = database.queue("w1")
    lease = claimed(queue)
    for done in range(5):
        queue.report_progress(lease, {"done": done})
    events = database.jobs.events(job.id)
    assert [event.id for event in events] == sorted({event.id for event in events})
    assert database.jobs.events(job.id, after=events[3].id) == events[4:]
    assert database.jobs.events(job.id, limit=2) == events[:2]


def test_old_jobs_are_removed(database: Database) -> None:
    old, kept = submitted(database), submitted(database)
    queue = database.queue("w1")
    queue.succeed(claimed(queue), [RESULT])
    blobs = [MODEL.sha256, RESULT.sha256]
    assert database.jobs.remove_finished(3600) == 0
    with database.jobs.unused(blobs) as unused:
        assert unused == frozenset()
    assert database.jobs.remove_finished(-1) == 1
    with database.jobs.unused(blobs) as unused:
        assert unused == {RESULT.sha256}
    assert database.jobs.get(old.id) is None
    assert state(database, kept) is JobState.QUEUED


def test_an_idempotency_key_makes_one_job(database: Database) -> None:
    keys = database.submissions
    assert keys.reserve("me", "k") is None
    under_way = keys.reserve("me", "k")
    assert under_way is not None
    assert (under_way.fingerprint, under_way.job_id) == (None, None)
    assert keys.reserve("you", "k") is None
    keys.release("me", "k")
    assert keys.reserve("me", "k") is None
    made = keys.submit("me", "k", "f" * 64, NewJob("model", [MODEL]))
    job = made.job
    keys.release("me", "k")
    assert keys.reserve("me", "k") == Submission("f" * 64, job.id, made.expires_at)
    database.jobs.cancel(job.id)
    database.jobs.remove_finished(-1)
    keys.forget_jobs()
    assert keys.reserve("me", "k") is None
