"""What the documentation shows is what the commands print: every ``$ superopt`` line of it is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from superopt.cli.main import run
from superopt.journeys.library.gallery import library_page
from superopt.journeys.library.operators import operators_page
from superopt.substitution_db.rules.shipped import SHIPPED_LIBRARY
from tests.conftest import WithLibrary

ROOT = Path(__file__).parent.parent
PAGES = ("docs/equations.md", "docs/proof.md", "docs/ci.md", "docs/own-rules.md")


def _examples() -> list[tuple[str, str, str]]:
    """Page, command and output, for each ``$`` line of a console block."""
    found: list[tuple[str, str, str]] = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append((page, command, output.strip()))
    return found


EXAMPLES = _examples()


def _without_times(text: str) -> str:
    """The text without what depends on the machine, or on which instances the sampler chose."""
    text = re.sub(r"\b\d+ (ms|s)\b", r"some \1", text.strip())
    return re.sub(r"^validated on: .*", "validated on: …", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("page", "command", "output"), EXAMPLES, ids=[command for _, command, _ in EXAMPLES])
def test_an_example_prints_what_the_page_says(
    page: str,
    command: str,
    output: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    with_library: WithLibrary,
) -> None:
    words = shlex.split(command, comments=True)
    assert words[0] == "superopt", page
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "rules.db"))
    run(words[1:])
    assert _without_times(capsys.readouterr().out) == _without_times(output)


def test_the_page_about_the_library_is_that_of_the_library() -> None:
    """Both are written by ``make library``; the page alone by ``superopt library document``."""
    path = ROOT / "docs" / "library.md"
    page = library_page(SHIPPED_LIBRARY, path.stem)
    assert path.read_text(encoding="utf-8") == page.text, "run superopt library document"
    pictures = {
        picture.name: picture.read_text(encoding="utf-8") for picture in path.with_suffix("").glob("*.svg")
    }
    assert pictures == dict(page.pictures)


def test_the_page_about_operators_is_that_of_the_registry() -> None:
    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    assert page == operators_page(), "run python -m superopt.journeys.library.operators > docs/operators.md"


def test_the_pages_have_examples() -> None:
    assert {page for page, _, _ in EXAMPLES} == set(PAGES)
