"""The order in which items come that read others."""

from __future__ import annotations

from superopt.traversal import acyclic, postorder

READS = {"a": "", "b": "a", "c": "ab", "d": "c", "e": "db"}


def test_what_is_read_comes_first_in_the_order_given() -> None:
    assert "".join(postorder("d", READS.__getitem__)) == "abcd"
    assert "".join(postorder("be", READS.__getitem__)) == "abcde"
    assert "".join(postorder("ca", lambda item: reversed(READS[item]))) == "abc"


def test_what_is_on_a_cycle_or_behind_one_never_comes() -> None:
    assert "".join(acyclic(READS)) == "abcde"
    assert "".join(acyclic({**READS, "c": "aed", "f": "e"})) == "ab"
    assert list(acyclic({0: [0]})) == []
