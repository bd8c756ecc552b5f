"""The shell commands of README and the guides, typed as they are printed, and their clients of the API."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.pages import Page
from support.system.folders import folder
from support.system.typed import answers, served

ROOT = Path(__file__).parents[2]
README = Page(ROOT / "README.md")
QUICKSTART = Page(ROOT / "docs" / "guides" / "quickstart.md")
STREAMING = Page(ROOT / "docs" / "guides" / "streaming.md")

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("sh")), reason="README's lines need sh and curl"
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of `layover dev`, with the stand-in model."""
    with folder("readme") as data, served(data) as address:
        yield address


def test_first_answer_and_first_approval_work_as_printed(url: str) -> None:
    first, waiting, decided, over, events = answers(README, 0, url)
    assert first["status"] == "success"
    assert "oak bookshelf" in first["text"]
    assert waiting["status"] == "suspended"
    assert decided["id"] == over["id"] == waiting["id"]
    assert over["status"] == "success"
    assert "Refunded 60.00 euros" in over["text"]
    assert events["done"] is True


def test_quickstart_answers_as_printed(url: str) -> None:
    run, messages = answers(QUICKSTART, 0, url)
    assert run["status"] == "success"
    assert messages["items"][0]["role"] == "user"


def test_quickstart_denies_as_printed(url: str) -> None:
    waiting, decided, over = answers(QUICKSTART, 1, url)
    assert waiting["status"] == "suspended"
    assert decided["id"] == over["id"]
    assert over["status"] == "success"
    assert "Refunded" not in over["text"]


def test_clients_of_the_streaming_guide_see_the_same_events(url: str) -> None:
    client: dict[str, Any] = {"__name__": "streaming_guide"}
    for block in STREAMING.python:
        exec(block.compiled, client)
    (run, _) = answers(QUICKSTART, 0, url)
    polled = list(client["poll"](url, "dev:ada", run["id"]))
    followed = list(client["follow"](url, "dev:ada", run["id"]))
    assert [e["type"] for e in polled][-2:] == ["finish", "agent-end"]
    assert followed == polled[:-1]
