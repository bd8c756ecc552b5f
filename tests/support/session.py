"""Writes the session of docs/index.md: a minute at a terminal, recorded from the real commands.

PYTHONPATH=tests:. .venv/bin/python -m support.session
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from layover.desk.cli.client import Api
from layover.desk.local.postgres_data import lives
from support.system.folders import folder
from support.system.system import eventually
from support.system.typed import PRINTED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "index.md"
TALK_LIMIT_S = 120.0
STOP_LIMIT_S = 30.0
_RECORDED = re.compile(r"(<!-- recorded -->\n```text\n)(.*?)(```\n<!-- /recorded -->)", re.DOTALL)
_COMMAND = (sys.executable, "-m", "layover.desk.cli.main")
_OWN_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_OWN_IDS = (
    (r"thread_[0-9a-z]+", "thread_01k4"),
    (r"run_[0-9a-z]+", "run_01k4"),
    (r"R-[0-9a-z]+", "R-5f3k2p"),
)
"""They differ from one recording to the next."""
_LEFT_OUT = re.compile(r"in all |project |.*no embedder is set|.*OPENAI_API_KEY|logs: |.*\d tokens")
"""Lines about the machine or its time. The page says what the stand-in is."""


def shown(page: Path = PAGE) -> str:
    """Return the session that the page shows."""
    found = _RECORDED.search(page.read_text("utf-8"))
    assert found, f"{page} has no recorded session"
    return found[2]


def record() -> str:
    """Return the session. It takes about half a minute: the system starts twice."""
    with folder("session") as data:
        with _dev(data) as (lines, url):
            first = ["$ make dev", *lines, "", *_said(url, "Refund 60 euros for order A-1003")]
            [thread] = Api(url, "dev:cli", TALK_LIMIT_S).get("/threads")["items"]
        with _dev(data) as (lines, url):
            second = ["", "$ kill -9 %1", "$ make dev", lines[-1], ""]
            second += _said(url, "y it arrived broken", "--thread", thread["id"])
    text = "\n".join(line.rstrip() for line in [*first, *second] if not _LEFT_OUT.match(line))
    text = _OWN_ADDRESS.sub(PRINTED, text)
    for pattern, name in _OWN_IDS:
        text = re.sub(pattern, name, text)
    return text.rstrip() + "\n"


@contextmanager
def _dev(data: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the lines of `layover dev` up to the one that says where it is, and that address. Then it is
    killed: nothing may have been only in its memory."""
    process = subprocess.Popen(
        [*_COMMAND, "dev", "--port", "0", "--data", str(data)],
        env=_environment(data),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith("ready "):
                break
        yield lines, lines[-1].removeprefix("ready ")
    finally:
        started = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait(STOP_LIMIT_S)
        process.stdout.close()
        eventually(lambda: not any(lives(each) for each in started), within=STOP_LIMIT_S)


def _said(url: str, text: str, *options: str) -> list[str]:
    """Return the line that says this to the agent, and what it prints. Neither has the address: whoever reads
    the page has the usual one."""
    done = subprocess.run(
        [*_COMMAND, "chat", "support", "--url", url, *options],
        input=f"{text}\n",
        env=_environment(Path.cwd()),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TALK_LIMIT_S,
        check=False,
    )
    typed = " ".join(("layover chat support", *options))
    printed = done.stdout.replace(f" --url {url}", "")
    return [f'$ echo "{text}" | {typed}', *printed.splitlines()]


def _environment(data: Path) -> dict[str, str]:
    """Return the variables of the commands: without a provider, and without a sign-in of this machine."""
    kept = {k: os.environ[k] for k in ("PATH", "LANG") if k in os.environ}
    return kept | {"HOME": str(data), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "COLUMNS": "110"}


def main() -> None:
    """Record it, and write it into the page."""
    session = record()
    page = PAGE.read_text("utf-8")
    PAGE.write_text(_RECORDED.sub(lambda m: m[1] + session + m[3], page), "utf-8")


if __name__ == "__main__":
    main()
