"""The cache of answers: whole documents, found again by content, and never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.verifier.content_cache import ContentCache, content_key, user_cache


def test_a_document_is_found_again(tmp_path: Path) -> None:
    key = content_key(("axiom", "operators"))
    assert ContentCache(tmp_path).get(key) is None
    ContentCache(tmp_path).put(key, {"cases": [1, 2], "reason": "größer"})
    assert ContentCache(tmp_path).get(key) == {"cases": [1, 2], "reason": "größer"}
    assert ContentCache(tmp_path).get(content_key(("axiom", "operators", ""))) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [(("ab", "c"), ("a", "bc")), (("a",), ("a", "")), (("1 a",), ("a",)), (("a", "b"), ("b", "a"))],
)
def test_keys_tell_where_a_part_ends(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert content_key(one) == content_key(one)
    assert content_key(one) != content_key(other)


def test_a_file_that_is_no_document_is_as_good_as_none(tmp_path: Path) -> None:
    cache, key = ContentCache(tmp_path), content_key(("x",))
    cache.put(key, 1)
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(b"{\xff")
    assert cache.get(key) is None
    cache.put(key, 2)
    assert cache.get(key) == 2


def test_a_directory_that_cannot_be_made_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ContentCache(tmp_path / "file" / "below")
    cache.put(content_key(("x",)), 1)
    assert cache.get(content_key(("x",))) is None


def test_without_a_directory_nothing_is_kept() -> None:
    cache = ContentCache(None)
    cache.put(content_key(("x",)), 1)
    assert cache.get(content_key(("x",))) is None


def test_the_user_cache_follows_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache("axioms").directory == tmp_path / "superopt" / "axioms"
