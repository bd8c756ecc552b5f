"""The site of the documentation: its navigation has every page, the page of the Python API every public name."""

import re
from pathlib import Path

import layover
from layover import testing

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = (ROOT / "mkdocs.yml").read_text()
API = (DOCS / "reference" / "python-api.md").read_text()


def test_every_page_is_in_the_navigation_once() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    named = re.findall(r"[\w/-]+\.md$", SITE, re.MULTILINE)
    assert len(named) == len(set(named))
    assert pages - set(named) == set()


def test_every_public_name_is_on_the_page_of_the_python_api() -> None:
    shown = re.findall(r"^::: (\S+)$", API, re.MULTILINE)
    public = {f"layover.{name}" for name in layover.__all__}
    public |= {f"layover.testing.{name}" for name in testing.__all__}
    assert public - set(shown) == set()
    assert len(shown) == len(set(shown))


def test_no_font_is_fetched_and_warnings_are_errors() -> None:
    assert re.search(r"^strict: true$", SITE, re.MULTILINE)
    assert re.search(r"^  font: false$", SITE, re.MULTILINE)
