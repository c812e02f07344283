"""What a proof depends on is hashed: every module that a verdict comes from, and no other."""

from __future__ import annotations

import grimp

from verifier.hashes import JUDGING, code_lines

WITHOUT_SAY = {"generality.py", "hashes.py", "pool.py"}


def test_the_modules_behind_a_verdict_are_those_hashed() -> None:
    graph = grimp.build_graph("verifier", cache_dir=None)
    behind = {"verifier.verify", *graph.find_upstream_modules("verifier.verify")}
    names = {name.removeprefix("verifier.").replace(".", "/") + ".py" for name in behind if "." in name}
    assert names - WITHOUT_SAY == JUDGING


def test_comments_and_blank_lines_do_not_count() -> None:
    assert code_lines("a = 1\n\n# why\n    # indented\nb = 2  \n") == "a = 1\nb = 2"
