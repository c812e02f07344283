"""The documentation is a site without broken links, and every page of it is in the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make docs`` builds; a broken link, or a page that is not in the navigation, fails."""
    directory = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(directory)))
    return directory


def test_every_page_is_in_the_index() -> None:
    pages = {page.name for page in DOCS.glob("*.md")} - {"index.md"}
    assert pages == set(re.findall(r"\]\((\w[\w-]*\.md)\)", (DOCS / "index.md").read_text(encoding="utf-8")))


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = r"""(?:<(?:script|img|iframe)[^>]*src|<link[^>]*href)\s*=\s*["']?(?:https?:)?//"""
    sources = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(sources) > len(list(DOCS.glob("*.md")))
    for source in sources:
        text = source.read_text(encoding="utf-8")
        assert not re.findall(loaded + r"|url\(\s*[\"']?(?:https?:)?//|@import", text), source.name


def test_lists_and_tables_are_not_shown_as_text(site: Path) -> None:
    """Nested lists need four spaces, and a list after a paragraph an empty line."""
    block = re.compile(r"<(p|li)>(?:(?!</?(?:p|li|ul|ol|pre)>).)*?\n(?:- |\d+\. |\||```)", re.DOTALL)
    found = {
        page.name: match.group(0)[-200:]
        for page in site.glob("*.html")
        if (match := block.search(page.read_text(encoding="utf-8")))
    }
    assert not found


def test_links_of_other_pages_lead_somewhere(site: Path) -> None:
    """Markdown outside of ``docs`` is not part of the site; its links are those of the repository."""
    for page in ROOT.glob("*.md"):
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose):
            path, _, anchor = target.partition("#")
            assert not path or (ROOT / path).exists(), f"{page.name}: {target}"
            if anchor and path:
                html = (site / Path(path).with_suffix(".html").name).read_text(encoding="utf-8")
                assert f'id="{anchor}"' in html, f"{page.name}: {target}"
