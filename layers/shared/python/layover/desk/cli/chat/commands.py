"""Commands of a conversation: `/thread`, `/agent`, `/memory`, `/files`, `/usage`, and those that decide."""

import mimetypes
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from layover.desk.cli.chat.answer import usage_line
from layover.desk.cli.chat.terminal import Terminal
from layover.desk.cli.client import Api
from layover.errors import nearest

Json = dict[str, Any]
HELP = """\
/thread              this thread; `/thread new` begins another, `/thread ID` goes to one
/threads             the newest threads
/agent NAME          begins a thread with another agent
/memory              what this thread, and the agent of you, remember
/files               files of this thread; `/files PATH` sends one with the next message
/usage               tokens and cost since the start
/approve [N REASON]  approves a call that waits; `/deny` denies it, `/decide` asks about it again
/exit                ends, as does the end of input; Ctrl-C cancels an answer"""
COMMAND = "layover chat"
_MAX_THREADS = 10


class Talk:
    """A conversation's state: agent, thread (made with the first message), files to send, usage. `command`
    begins another one with the same system as the same user."""

    def __init__(self, agent: str, thread_id: str | None = None, command: str = COMMAND) -> None:
        self.agent = agent
        self.thread_id = thread_id
        self.command = command
        self.files: list[Json] = []
        self.runs = 0
        self.usage: Json = {"total_tokens": 0, "cost_usd": 0.0}

    def thread(self, api: Api) -> str:
        """The thread's id. Raises ApiError."""
        if self.thread_id is None:
            self.thread_id = str(api.post("/threads", agent=self.agent)["id"])
        return self.thread_id

    def input(self, text: str) -> str | list[Json]:
        """A run's input: the text, with the files that were named since the last accepted input."""
        return [*self.files, {"type": "text", "text": text}] if self.files else text

    def count(self, usage: Json) -> None:
        """Count a run that is over. An unknown price makes the sum unknown."""
        cost, total = usage.get("cost_usd"), self.usage["cost_usd"]
        self.runs += 1
        self.usage = {
            "total_tokens": self.usage["total_tokens"] + usage["total_tokens"],
            "cost_usd": None if cost is None or total is None else total + float(cost),
        }


class Commands:
    """Carries out a line that begins with a slash. Every command raises ApiError. `go_on`: shows the run that
    a thread has under way, and returns False if it waits and no person is present. `decide`: decides a call
    that waits, by its number (from 1) and the answer to its question, and returns as `go_on`."""

    def __init__(
        self,
        api: Api,
        terminal: Terminal,
        talk: Talk,
        go_on: Callable[[str], bool],
        decide: Callable[[int, str | None], bool],
    ) -> None:
        self._api = api
        self._terminal = terminal
        self._talk = talk
        self._go_on = go_on
        self._decide = decide

    def do(self, line: str) -> bool:
        """Carry out one command; an unknown one lists them. Return False if the conversation ends with it."""
        name, _, rest = line.removeprefix("/").partition(" ")
        commands: dict[str, Callable[[str], bool | None]] = {
            "thread": self._thread,
            "threads": self._threads,
            "agent": self._agent,
            "memory": self._memory,
            "files": self._files,
            "usage": self._usage,
            "approve": lambda rest: self._answer("y", rest),
            "deny": lambda rest: self._answer("n", rest),
            "decide": lambda rest: self._answer(None, rest),
            # What waits is shown before the next line.
            "later": lambda rest: None,
        }
        command = commands.get(name)
        if command is not None:
            return command(rest.strip()) is not False
        near = None if name == "help" else nearest(name, {*commands, "exit", "help"})
        self._terminal.note(HELP if near is None else f"no /{name}: did you mean /{near}?")
        return True

    def _thread(self, rest: str) -> bool:
        if rest == "new":
            self._talk.thread_id = None
        elif rest:
            thread = self._api.get(f"/threads/{quote(rest, safe='')}")
            self._talk.thread_id, self._talk.agent = thread["id"], thread["agent"]
        if self._talk.thread_id is None:
            self._terminal.note(f"a new thread with {self._talk.agent} begins with your message")
        else:
            self._terminal.note(_line(self._api.get(self._path())))
        is_other = rest not in ("", "new") and self._talk.thread_id is not None
        return self._go_on(str(self._talk.thread_id)) if is_other else True

    def _threads(self, _: str) -> None:
        for thread in self._api.get("/threads", limit=_MAX_THREADS)["items"]:
            self._terminal.note(_line(thread))

    def _agent(self, rest: str) -> None:
        agents = self._api.get("/agents", limit=100)["items"]
        names = [agent["name"] for agent in agents]
        if rest in names:
            self._talk.agent, self._talk.thread_id = rest, None
            self._terminal.note(f"a new thread with {rest} begins with your message")
        else:
            near = nearest(rest, names)
            meant = "" if near is None else f"no agent {rest!r}: did you mean {near!r}? "
            self._terminal.note(f"{meant}agents: {', '.join(names)}")

    def _memory(self, _: str) -> None:
        if self._talk.thread_id is not None:
            self._terminal.note("this thread:", "bold")
            self._say_all(_notes(self._api.get(f"{self._path()}/memory")))
        self._terminal.note(f"what {self._talk.agent} remembers about you:", "bold")
        entries = self._api.get("/memory/entries", agent=self._talk.agent)["items"]
        self._say_all([f"{entry['content']} ({entry['source']})" for entry in entries])

    def _files(self, rest: str) -> None:
        if rest:
            self._attach(Path(rest).expanduser())
            return
        lines = [f"{part['name']} (with your next message)" for part in self._talk.files]
        if self._talk.thread_id is not None:
            for message in self._api.get(f"{self._path()}/messages", limit=100)["items"]:
                lines += [
                    f"{part.get('name')}, {part.get('mime_type')} ({part.get('file_id', 'a link')})"
                    for part in message["content"]
                    if part["type"] == "file"
                ]
        self._say_all(lines)

    def _attach(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except OSError as error:
            self._terminal.note(f"{path}: {error.strerror}", "yellow")
            return
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        file = self._api.post("/files", name=path.name, mime_type=kind, size=len(data))
        self._api.upload(file["upload_url"], data, kind)
        part = {"type": "file", "file_id": file["id"], "name": path.name, "mime_type": kind}
        self._talk.files.append(part)
        self._terminal.note(f"{path.name} goes with your next message")

    def _usage(self, _: str) -> None:
        self._terminal.note(f"{self._talk.runs} answers, {usage_line(self._talk.usage)}")

    def _answer(self, word: str | None, rest: str) -> bool:
        number, _, reason = rest.partition(" ")
        if not number.isdecimal():
            number, reason = "1", rest
        return self._decide(int(number), None if word is None else f"{word} {reason}".strip())

    def _say_all(self, lines: list[str]) -> None:
        for line in lines or ["nothing yet"]:
            self._terminal.note(f"  {line}", "")

    def _path(self) -> str:
        return f"/threads/{quote(str(self._talk.thread_id), safe='')}"


def _line(thread: Json) -> str:
    active = thread.get("active_run")
    state = f", {active['status']}" if active else ""
    return f"{thread['id']}  {thread['agent']}  {thread.get('title') or 'untitled'}{state}"


def _notes(memory: Json) -> list[str]:
    """Return the content of a thread's memory, a line for each item."""
    lines = [note["text"] for note in memory.get("observations", ()) if note.get("active", True)]
    for name in ("summary", "working_memory", "session", "plan"):
        if memory.get(name):
            lines.append(f"{name.replace('_', ' ')}: {memory[name]}")
    return lines
