"""The shell commands of README and the guides, typed as they are printed, and their clients of the API."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.pages import Page
from support.system.folders import folder

ROOT = Path(__file__).parents[2]
README = Page(ROOT / "README.md")
QUICKSTART = Page(ROOT / "docs" / "guides" / "quickstart.md")
STREAMING = Page(ROOT / "docs" / "guides" / "streaming.md")
PRINTED = "http://127.0.0.1:8787"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 30.0

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("sh")), reason="README's lines need sh and curl"
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of `layover dev`, with the stand-in model."""
    with folder("readme") as data:
        kept = {k: os.environ[k] for k in ("PATH", "HOME", "LANG") if k in os.environ}
        process = subprocess.Popen(
            [sys.executable, "-m", "layover.cli.main", "dev", "--port", "0", "--data", str(data)],
            env=kept | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        try:
            ready = next(line for line in process.stdout if line.startswith("ready "))
            yield ready.removeprefix("ready ").strip()
        finally:
            process.terminate()
            try:
                process.communicate(timeout=STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                process.stdout.close()
                raise


def answers(page: Page, number: int, url: str) -> list[Any]:
    """Return the answers to a block's requests, one after another, of those that the page prints whole."""
    blocks = [block.source for block in page.shell if block.source.startswith("API=")]
    lines = blocks[number]
    assert PRINTED in lines
    # An echo after each curl that prints, so that its answer is a line.
    script = re.sub(r"^(curl [^#\n]*).*$", r"\1; echo", lines.replace(PRINTED, url), flags=re.M)
    printed = subprocess.run(
        ["sh", "-eu", "-c", script],
        env={"PATH": os.environ["PATH"], "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=START_LIMIT_S,
        check=True,
    ).stdout.splitlines()
    return [json.loads(line) for line in printed]


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
