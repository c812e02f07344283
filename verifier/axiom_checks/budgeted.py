"""Time-limited analyses of many axioms with cached results.

Workers cache each answer themselves, so that an interrupted run loses only work in progress; after the budget
is spent, only cached answers are returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Generic, TypeVar

from superopt.ir.terms import Equation
from superopt.ops import OPERATORS
from superopt.verifier.content_cache import ContentCache, content_key
from superopt.verifier.hashes import code_lines, operators_hash, verifier_hash
from superopt.verifier.pool import judge_all

Answer = TypeVar("Answer")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Task(Generic[Answer]):
    """The analysis of one axiom; must be picklable.

    ``depends`` is everything that the answer about an axiom depends on. ``failed`` is the answer where none
    could be had, with the reason; it is not kept.
    """

    answer: Callable[[Equation], Answer]
    failed: Callable[[Equation, str], Answer]
    write: Callable[[Answer], object]
    read: Callable[[object], Answer]
    depends: Sequence[str]


@dataclass(frozen=True)
class _Remembered(Generic[Answer]):
    task: Task[Answer]
    cache: ContentCache
    deadline: float | None

    def __call__(self, axiom: Equation) -> Answer | None:
        key = content_key((*self.task.depends, axiom.name))
        kept = self.cache.get(key)
        if kept is not None:
            return self.task.read(kept)
        if self.deadline is not None and time.time() >= self.deadline:
            return None
        answer = self.task.answer(axiom)
        self.cache.put(key, self.task.write(answer))
        return answer


def answers(
    axioms: Sequence[Equation],
    task: Task[Answer],
    *,
    cache: ContentCache,
    jobs: int = 1,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Equation, Answer | None]]:
    """Each axiom with its answer, in order; None if the time limit was reached before.

    With ``jobs`` 0 everything is done in this process.
    """
    deadline = None if seconds is None else time.time() + seconds
    judged = judge_all(
        _Remembered(task, cache, deadline), axioms, lost=task.failed, jobs=jobs, progress=progress
    )
    return zip(axioms, judged, strict=True)


def hashes_of_code(*sources: tuple[str, str]) -> tuple[str, ...]:
    """What the meaning of operators, the verifier, and these modules (package, file) say now."""
    texts = (resources.files(package).joinpath(file).read_text("utf-8") for package, file in sources)
    return (operators_hash(OPERATORS), verifier_hash(), *map(code_lines, texts))


__all__ = ["Progress", "Task", "answers", "hashes_of_code"]
