"""Objects of earlier processes: computed again whenever anything that they depend on is different."""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt import object_cache
from superopt.axioms import load_axioms
from superopt.object_cache import cached, source_key
from superopt.substitution_db.rules.currency import current, current_from_cache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of an empty cache."""
    monkeypatch.setattr(object_cache, "user_cache_path", lambda *_, **__: tmp_path)
    return tmp_path / "objects"


def test_the_last_result_is_kept_with_what_it_depends_on(cache: Path) -> None:
    assert cached("numbers", ("a", "b"), lambda: [1]) == [1]
    assert cached("numbers", ("a", "b"), lambda: [2]) == [1]
    assert cached("others", ("a", "b"), lambda: [2]) == [2]
    assert cached("numbers", ("ab", ""), lambda: [3]) == [3]
    assert cached("numbers", ("a", "b"), lambda: [4]) == [4]
    assert sorted(path.name for path in cache.iterdir()) == ["numbers.pickle", "others.pickle"]


@pytest.mark.parametrize("harm", ["cut", "writable", "foreign class"])
def test_what_cannot_be_trusted_or_read_is_computed_again(cache: Path, harm: str) -> None:
    cached("numbers", ("a",), lambda: [1])
    path = cache / "numbers.pickle"
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:-3])
    elif harm == "writable":
        path.chmod(0o666)
    else:
        path.write_bytes(path.read_bytes()[:64] + b"csuperopt.missing\nClass\n.")
    assert cached("numbers", ("a",), lambda: [2]) == [2]


def test_without_a_directory_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(object_cache, "user_cache_path", lambda *_, **__: tmp_path / "file")
    assert cached("numbers", ("a",), lambda: [1]) == [1]


def test_a_change_of_a_source_changes_the_key() -> None:
    assert source_key("equations") == source_key("equations")
    assert source_key("equations") != source_key("equations", "ir")


def test_cached_axioms_are_those_of_the_files(cache: Path) -> None:
    current_from_cache.cache_clear()
    first = current_from_cache()
    current_from_cache.cache_clear()
    again = current_from_cache()
    current_from_cache.cache_clear()
    assert (cache / "axioms.pickle").exists()
    assert again.state.axioms == first.state.axioms == load_axioms()
    assert again.hashes == current().hashes
