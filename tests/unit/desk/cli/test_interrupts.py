"""Ctrl-C at every line of `layover chat` while a run is begun and followed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from layover.desk.cli.chat import answer, commands, loop
from layover.desk.cli.chat.commands import Talk
from layover.desk.cli.chat.loop import Chat
from unit.desk.cli.test_chat import USAGE, Lines, Server

FILES = {module.__file__ for module in (answer, commands, loop)}
DELTA = {"type": "text-delta", "step": 1, "text": "one "}
OVER = {"type": "finish", "status": "success", "finish_reason": "stop", "usage": USAGE}
LOOKS = 6
"""The run is over by itself after so many."""


class Patient(Server):
    """A run that is over once it is cancelled, or after a while."""

    looks = 0

    def get(self, path: str, **query: Any) -> Any:
        """As `Api.get` of events."""
        self.looks += 1
        over = self.looks > LOOKS or bool(self.cancels)
        events = [{"seq": 1, **DELTA}, *([{"seq": 2, **OVER}] if over else [])]
        items = [event for event in events if int(str(event["seq"])) > query["after"]]
        last = items[-1]["seq"] if items else query["after"]
        return {"items": items, "last_seq": last, "done": over and "wait" not in query}

    @property
    def cancels(self) -> list[str]:
        return [path for path, _ in self.posts if path.endswith("/cancel")]


@contextmanager
def interrupt(line: int) -> Iterator[list[bool]]:
    """Press Ctrl-C at the line of this number; yields a list that has an item once that is done."""
    done: list[bool] = []
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in FILES or done:
            return None
        lines += event == "line"
        if lines == line:
            done.append(True)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield done
    finally:
        sys.settrace(before)


def test_ctrl_c_at_any_line_leaves_no_run_that_goes_on_unseen() -> None:
    line = 0
    while True:
        line += 1
        server, lines = Patient([]), Lines(["hi"])
        chat = Chat(server, lines, Talk("shop"), lambda _: None)
        with interrupt(line) as done, suppress(KeyboardInterrupt):
            chat.hold()
        if not done:
            break
        begun = any(path.endswith("/runs") for path, _ in server.posts)
        assert server.cancels or not begun or server.looks > LOOKS, f"line {line}: {lines.shown}"
    assert line > 200
