"""The lines that `make dev` prints to decide a call, typed into a shell as they are."""

import os
import shutil
import subprocess
from typing import Any

import pytest

from support.providers.openai import call, say
from support.system.system import Brain, Caller, System, eventually

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("sh")), reason="the lines need sh and curl"
)
SHELL_LIMIT_S = 60.0


def printed(system: System, run_id: str, count: int) -> list[str]:
    """Return the lines that decide the run's call, once so many are there."""
    return eventually(
        lambda: [s.strip() for s in system.lines if f"/runs/{run_id}/" in s],
        lambda lines: len(lines) >= count,
    )


def type_line(line: str) -> int:
    """Return the status of the HTTP answer to a line."""
    done = subprocess.run(
        ["sh", "-euc", f"{line} -o /dev/null -w '%{{http_code}}'"],
        env={"PATH": os.environ["PATH"], "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=SHELL_LIMIT_S,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.parametrize(
    ("tool", "args", "count"),
    [
        ("pay", {"amount": 60}, 1),
        ("pay_by_others", {"amount": 60}, 1),
        ("pay_by_members", {"amount": 60}, 1),
        ("pay_by_two", {"amount": 60}, 2),
        ("pay_explained", {"amount": 60}, 1),
        ("send_parcel", {}, 1),
        ("ask_number", {}, 1),
    ],
)
def test_the_printed_lines_decide_the_call_and_the_run_ends(
    ann: Caller, brain: Brain, system: System, tool: str, args: dict[str, Any], count: int
) -> None:
    run = ann.ask(ann.thread("treasurer"), brain.plan(call(tool, **args), say("done")))
    assert run["status"] == "suspended"
    lines = printed(system, run["id"], count)
    assert [type_line(line) for line in lines] == [202] * count
    over = ann.over(run["id"])
    assert (over["status"], over["text"]) == ("success", "done")
    (end,) = [e for e in ann.events(run["id"]) if e["type"] == "tool-execution-end"]
    assert not end["is_error"], end
