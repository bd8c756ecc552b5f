"""`layover dev` with the stand-in model, as a reader starts it, and a page's shell blocks typed into it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.pages import Page

PRINTED = "http://127.0.0.1:8787"
"""The address that pages print."""
START_LIMIT_S = 60.0
STOP_LIMIT_S = 30.0


@contextmanager
def served(data: Path, *options: str, **variables: str) -> Iterator[str]:
    """Yield the URL of `layover dev` with these options, in an environment without a provider."""
    kept = {k: os.environ[k] for k in ("PATH", "HOME", "LANG") if k in os.environ}
    command = [
        sys.executable,
        "-m",
        "layover.desk.cli.main",
        "dev",
        "--port",
        "0",
        "--data",
        str(data),
    ]
    process = subprocess.Popen(
        [*command, *options],
        env=kept | {"PYTHONUNBUFFERED": "1"} | variables,
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
    """Return the answers to the requests of a conversation of the page, one after another. A conversation
    begins with the block that names the API, and goes on in the next blocks with requests."""
    conversations: list[str] = []
    for block in page.shell:
        if block.source.startswith("API="):
            conversations.append(block.source)
        elif conversations and re.search(r"^curl ", block.source, re.M):
            conversations[-1] += block.source
    lines = conversations[number]
    assert PRINTED in lines
    # An echo after each curl that prints, so that its answer is a line.
    script = re.sub(r"^(curl .*)$", r"\1; echo", lines.replace(PRINTED, url), flags=re.M)
    printed = subprocess.run(
        ["sh", "-eu", "-c", script],
        env={"PATH": os.environ["PATH"], "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=START_LIMIT_S,
        check=True,
    ).stdout.splitlines()
    return [json.loads(line) for line in printed]
