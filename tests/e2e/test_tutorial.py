"""The tutorial in a project of one's own: each chapter's files saved, its tests run, its requests typed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.chapters import chapter, follow
from support.own_project import Installation, Serving
from support.system.folders import folder
from support.system.typed import answers

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("sh")), reason="the chapters' lines need sh and curl"
)


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """The built wheel, which knows nothing of the checkout."""
    with folder("installed") as place:
        yield Installation(place)


@pytest.fixture
def place() -> Iterator[Path]:
    with folder("tutorial") as made:
        yield made


def test_first_agent_answers_as_printed(installation: Installation, place: Path) -> None:
    project = follow(installation, place, "first-agent")
    assert "3 passed" in installation.run(project, "test")
    with Serving(installation, project, place / "log") as serving:
        url = serving.told(r"^ready (\S+)$")
        assert serving.told(r"^agent payouts: (.*)$") == "balance"
        [run] = answers(chapter("first-agent"), 0, url)
        chat = ["chat", "payouts", "--user", "ada", "--url", url]
        said = installation.run(project, *chat, typed="What is the balance of Nora?\n")
    assert run["status"] == "success"
    assert "1250" in run["text"]
    assert '-> balance(seller="Nora")' in said


def test_payout_waits_for_finance_as_printed(installation: Installation, place: Path) -> None:
    project = follow(installation, place, "approval")
    assert "4 passed" in installation.run(project, "test")
    with Serving(installation, project, place / "log") as serving:
        url = serving.told(r"^ready (\S+)$")
        assert serving.told(r"^agent payouts: (.*)$") == "balance, pay_out (asks a person)"
        waiting, refused, decided, over = answers(chapter("approval"), 0, url)
        chat = ["chat", "payouts", "--user", "ada", "--url", url]
        said = installation.run(project, *chat, typed="Pay out 900 euros to Nora\nit is urgent\n")
    assert waiting["status"] == "suspended"
    assert waiting["pending"][0]["summary"] == "Pay 900.00 euros to Nora"
    assert (refused["status"], refused["approvers"]) == (403, ["finance"])
    assert decided["id"] == waiting["id"]
    assert over["status"] == "success"
    assert "Paid 900.00 euros to Nora" in over["text"]
    assert "decided by: finance; 1 of them" in said
    assert "[y/N/edit]" not in said
    assert f"layover chat --url {url} --user ada --thread " in said


def test_second_thread_knows_what_the_first_was_told_as_printed(
    installation: Installation, place: Path
) -> None:
    project = follow(installation, place, "memory")
    assert "6 passed" in installation.run(project, "test")
    with Serving(installation, project, place / "log") as serving:
        url = serving.told(r"^ready (\S+)$")
        told, entries, asked = answers(chapter("memory"), 0, url)
        # What the chapters before have built is still there.
        waiting, _, _, over = answers(chapter("approval"), 0, url)
    assert told["status"] == "success"
    assert [e["content"] for e in entries["items"]] == [
        "The transfers to the old account of Nora failed twice."
    ]
    assert asked["thread_id"] != told["thread_id"]
    assert "failed twice" in asked["text"]
    assert waiting["pending"][0]["tool_name"] == "pay_out"
    assert "Paid 900.00 euros to Nora" in over["text"]


def test_settings_of_the_deployed_desk_pass_its_test(
    installation: Installation, place: Path
) -> None:
    project = follow(installation, place, "deployed")
    assert "7 passed" in installation.run(project, "test")
