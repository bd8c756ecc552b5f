"""The tutorial's chapters, typed as they are printed: each one's agent is served, its requests are sent."""

import shutil
from pathlib import Path

import pytest

from support.pages import Page
from support.system.folders import folder
from support.system.typed import answers, serving

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("sh")), reason="the chapters' lines need sh and curl"
)


def test_first_agent_answers_as_printed() -> None:
    page = Page(TUTORIAL / "first-agent.md")
    with folder("first") as data, serving(page, data) as url:
        [run] = answers(page, 0, url)
    assert run["status"] == "success"
    assert "1250" in run["text"]


def test_payout_waits_for_finance_as_printed() -> None:
    page = Page(TUTORIAL / "approval.md")
    with folder("approval") as data, serving(page, data) as url:
        waiting, refused, decided, over = answers(page, 0, url)
    assert waiting["status"] == "suspended"
    assert waiting["pending"][0]["summary"] == "Pay 900.00 euros to Nora"
    assert (refused["status"], refused["approvers"]) == (403, ["finance"])
    assert decided["id"] == waiting["id"]
    assert over["status"] == "success"
    assert "Paid 900.00 euros to Nora" in over["text"]


def test_second_thread_knows_what_the_first_was_told_as_printed() -> None:
    page = Page(TUTORIAL / "memory.md")
    with folder("memory") as data, serving(page, data) as url:
        told, entries, asked = answers(page, 0, url)
    assert told["status"] == "success"
    assert [e["content"] for e in entries["items"]] == [
        "The transfers to the old account of Nora failed twice."
    ]
    assert asked["thread_id"] != told["thread_id"]
    assert "failed twice" in asked["text"]
