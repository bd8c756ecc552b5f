"""The guides' Python runs: each page is a module, and the tests that it shows pass."""

import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from layover.project import FILE
from support.pages import Page

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS.parent / "examples"
FOLDERS = ("guides", "deploy", "tutorial")
WEB_PAGE = DOCS / "tutorial" / "web-page.md"
"""It shows a page, which `tests/browser/test_tutorial_page.py` opens."""
SETTINGS = DOCS / "guides" / "tracing.md"
"""It shows settings; `tests/integration/tracing` reads what they do."""
FRONT_ENDS = DOCS / "guides" / "front-ends.md"
"""It shows TypeScript, which `tests/npm/test_typed_client.py` compiles and runs."""
PAGES = [
    page
    for folder in FOLDERS
    for page in map(Page, sorted((DOCS / folder).glob("*.md")))
    if page.python
]


def module_of(page: Page, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The page's blocks as one module, under the names that its tests import agents from."""
    module = types.ModuleType("user_agents")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    # The agents of a project.
    monkeypatch.setitem(sys.modules, "agents", module)
    for block in page.python:
        exec(block.compiled, module.__dict__)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.path.relative_to(DOCS)))
async def test_tests_that_a_page_shows_pass(
    page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for block in page.blocks:
        if block.file == FILE:
            (tmp_path / FILE).write_text(block.source, "utf-8")
            monkeypatch.chdir(tmp_path)
    module = module_of(page, monkeypatch)
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    for test in tests:
        result = test()
        if inspect.isawaitable(result):
            await result
    assert len(tests) == page.text.count("def test_")


def codes() -> Iterator[str]:
    """Each block of code in the documentation, and each example."""
    for page in map(Page, sorted(DOCS.rglob("*.md"))):
        yield from (block.source for block in page.blocks)
    yield from (path.read_text("utf-8") for path in EXAMPLES.glob("*.*x"))


def test_each_page_of_a_chat_that_is_shown_sends_one_message() -> None:
    """`tests/npm` runs each, and holds that its requests do not grow."""
    shown = [code for code in codes() if re.search(r"new (DefaultChatTransport|\w*Agent)\(", code)]
    assert len(shown) >= 3
    for code in shown:
        assert "prepareSendMessagesRequest" in code or "new OneMessageAgent(" in code, code


def test_every_guide_and_chapter_shows_python_that_is_tested() -> None:
    guides = {*(DOCS / "guides").glob("*.md"), *(DOCS / "tutorial").glob("*.md")} - {
        WEB_PAGE,
        SETTINGS,
        FRONT_ENDS,
    }
    tested = {page.path for page in PAGES if "def test_" in page.text}
    assert guides <= tested
