"""`layover chat` as a person and as a pipe run it: processes that know the system by its URL."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.providers.openai import call, say
from support.system.system import LAYOVER, WAIT_S, Brain, System, eventually, unique


def command(system: System, *options: str) -> list[str]:
    return [str(LAYOVER), "chat", "--url", system.url, "--user", unique("cli"), *options]


def piped(system: System, lines: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    """The end of a chat that read these lines."""
    return subprocess.run(
        command(system, *options),
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=2 * WAIT_S,
        check=False,
        env=os.environ | {"COLUMNS": "200"},
    )


class Typist:
    """A person at a terminal, and all that it showed."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self._shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, text: str) -> None:
        """Keys."""
        os.write(self._terminal, text.encode())

    def sees(self, text: str) -> None:
        """Block until the terminal has shown it."""
        eventually(lambda: self.shown, lambda shown: text in shown)

    @property
    def shown(self) -> str:
        """Without what sets colours and the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._shown.decode(errors="replace"))

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._terminal, 4096)
            except OSError:
                return
            if not data:
                return
            self._shown += data


@contextmanager
def typist(system: System, home: Path, *options: str) -> Iterator[Typist]:
    ours, theirs = pty.openpty()
    # A shell has its background jobs ignore Ctrl-C, and all that they start. A terminal does not.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            command(system, *options),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "TERM": "xterm"},
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, inherited)
    os.close(theirs)
    try:
        yield Typist(process, ours)
    finally:
        process.kill()
        process.wait(WAIT_S)
        os.close(ours)


def test_unknown_agent_ends_it_with_the_names_of_the_others(system: System) -> None:
    ended = piped(system, ["hi"], "--agent", "nobody")
    assert ended.returncode == 2
    assert "no agent 'nobody'; served are " in ended.stderr


def test_system_that_does_not_run_is_told() -> None:
    dead = [str(LAYOVER), "chat", "--url", "http://127.0.0.1:1"]
    ended = subprocess.run(dead, input="hi\n", capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert "no answer from http://127.0.0.1:1" in ended.stderr


def test_failed_run_is_the_exit_code_of_a_pipe(system: System, brain: Brain) -> None:
    ended = piped(system, [brain.plan()], "--agent", "support")
    assert ended.returncode == 1
    assert "failed: error" in ended.stderr


def test_pipe_gets_answers_and_stderr_the_approvals_forms_and_usage(
    system: System, brain: Brain
) -> None:
    refund = brain.plan(
        call("refund", order_id=unique(), amount=60), say("It is **refunded**."), text="refund"
    )
    book = brain.plan(call("book", key=unique()), say("Booked."), text="book")
    lines = [refund, "y", book, "9:00", "/exit", "never read"]
    ended = piped(system, lines, "support")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "It is **refunded**.\nBooked.\n"
    for part in ("amount=60.0)? [y/N/edit] y", "9:00", "tokens"):
        assert part in ended.stderr, ended.stderr
    assert len(brain.requests(refund)) == len(brain.requests(book)) == 2


def test_end_of_input_leaves_a_call_waiting(system: System, brain: Brain) -> None:
    text = brain.plan(call("refund", order_id=unique(), amount=60), say("never"))
    ended = piped(system, [text], "--agent", "support")
    assert ended.returncode == 0
    again = re.search(r"run_\w+ waits: layover (chat .+ --thread thread_\w+)$", ended.stderr, re.M)
    assert again is not None
    # Whoever types it is the same user of the same system.
    gone_on = subprocess.run(
        [str(LAYOVER), *shlex.split(again[1])],
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert gone_on.returncode == 0, gone_on.stderr
    assert "approve refund(" in gone_on.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_person_edits_what_is_approved_and_cancels_an_answer(
    system: System, brain: Brain, tmp_path: Path
) -> None:
    order = unique()
    refund = brain.plan(call("refund", order_id=order, amount=60), say("# Done\n\nIt is **paid**."))
    hold = threading.Event()
    slow = brain.plan(say("never seen", hold=hold))
    with typist(system, tmp_path, "--agent", "support") as person:
        person.type(f"{refund}\n")
        person.sees("amount=60.0)? [y/N/edit]")
        person.type("edit\n")
        person.sees(f'args> {{"order_id": "{order}"')
        person.type("\x15" + json.dumps({"order_id": order, "amount": 40}) + "\n")
        person.sees("It is paid.")
        person.type(f"{slow}\n")
        brain.asked(slow)
        person.process.send_signal(signal.SIGINT)
        person.sees("cancelled: cancelled")
        hold.set()
        # The terminal drops what is typed as it changes hands.
        eventually(lambda: person.shown, lambda shown: shown.endswith("> "))
        person.type("\x04")
        assert person.process.wait(WAIT_S) == 0
    history = next(tmp_path.rglob("chat_history"))
    assert refund in history.read_text()
    assert history.stat().st_mode & 0o077 == 0
