"""The conversation: a line in, a run followed to its end, the next line."""

import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

from layover.desk.cli.chat.answer import Answer, usage_line
from layover.desk.cli.chat.calls import signature
from layover.desk.cli.chat.commands import COMMAND, Commands, Talk
from layover.desk.cli.chat.decisions import SaidInstead, decide, is_for_others
from layover.desk.cli.chat.terminal import Silence, Terminal
from layover.desk.cli.client import (
    NO_AGENTS,
    NO_ANSWER,
    REFUSED,
    USAGE,
    Api,
    ApiError,
)
from layover.desk.cli.tokens import LOCAL, LOCAL_USER, TokenFile
from layover.desk.failures import report_failure
from layover.desk.local.doors import LOOPBACK
from layover.errors import unknown_agent

Json = dict[str, Any]
LONG_POLL_S = 20
INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended, as shells know it."""
_RETRIES = 30
_RETRY_S = 2.0
"""The tries after a lost connection, which last for a minute."""
_GLANCES_S = (0.1, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Pauses before streams that follow streams without an event: one of a run that waits for a person ends at
once."""


class Chat:
    """One person and one agent. `ended_badly`: the last run failed."""

    def __init__(
        self,
        api: Api,
        terminal: Terminal,
        talk: Talk,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api = api
        self._terminal = terminal
        self._talk = talk
        self._commands = Commands(api, terminal, talk, self._go_on, self._decide)
        self._pause = pause
        self._aside: dict[str, Turn] = {}
        """Runs that wait while the conversation goes on, by id."""
        self._lines: list[str] = []
        """Lines that were typed in the place of an answer."""
        self.ended_badly = False

    def hold(self) -> None:
        """Talk until `/exit` or the end of input. Raises ApiError if nothing can go on."""
        if self._terminal.interactive:
            self._terminal.note(f"{self._talk.agent}: /help lists commands, /exit ends")
        if self._talk.thread_id is not None and not self._go_on(self._talk.thread_id):
            return
        while (line := self._next_line()) is not None:
            if not self._do(line.strip()):
                break

    def _next_line(self) -> str | None:
        while True:
            if self._lines:
                return self._lines.pop(0)
            try:
                self._try(self._show_waiting)
                return self._terminal.read("> ")
            except KeyboardInterrupt:
                self._terminal.note("/exit ends")

    def _do(self, text: str) -> bool:
        """Return False if the conversation ends with this line. Ctrl-C ends only the line."""
        try:
            # The person typed without a look at what others decided meanwhile.
            self._try(self._show_over)
            if text in ("/exit", "/quit"):
                return False
            if text.startswith("/"):
                return self._carry_out(text)
            return not text or self._ask(text)
        except KeyboardInterrupt:
            if not self._terminal.interactive:
                raise
            self._terminal.note("/exit ends")
            return True

    def _carry_out(self, line: str) -> bool:
        """Carry out a command. Return False if its thread's run waits and no person is present."""
        goes_on = True

        def act() -> None:
            nonlocal goes_on
            goes_on = self._commands.do(line)

        self._try(act)
        return goes_on

    def _try(self, act: Callable[[], object]) -> bool:
        """Return False if the API refused, with a message; an API that does not answer ends a pipe."""
        try:
            act()
        except ApiError as error:
            self._terminal.note(str(error), "red")
            self.ended_badly = True
            if not self._terminal.interactive:
                raise
            return False
        return True

    def _ask(self, text: str) -> bool:
        """Start a run. Return False if it waits for a person and no person is present."""
        if not self._try(lambda: self._talk.thread(self._api)):
            return True
        path = f"/threads/{quote(self._talk.thread(self._api), safe='')}/runs"
        # After Ctrl-C, nobody knows whether the run has begun, so the same key requests it again.
        key, content = str(uuid4()), self._talk.input(text)
        post = partial(self._api.post, path, idempotency_key=key, input=content, stream=True)
        return self._complete(Turn(Answer(self._terminal), post=post))

    def _go_on(self, thread_id: str) -> bool:
        """Go on with a run that the thread has under way, not with those that wait."""
        thread = self._api.get(f"/threads/{quote(thread_id, safe='')}")
        self._aside = {run["id"]: self._load(run["id"]) for run in thread.get("waiting_runs") or ()}
        active = thread.get("active_run")
        return self._complete(Turn(Answer(self._terminal), active["id"])) if active else True

    def _load(self, run_id: str) -> "Turn":
        """Return a run that waits, as far as it is."""
        turn = Turn(Answer(Silence()), run_id)
        turn.pages = Pages(self._api, run_id, 0, self._wait, self._pause)
        while items := self._api.get(turn.pages.path, after=turn.pages.after)["items"]:
            for event in items:
                turn.answer.show(event)
            turn.pages.after = items[-1]["seq"]
        turn.answer.speak_on(self._terminal)
        turn.others_calls |= {_key(call) for call in turn.answer.waiting.values()}
        return turn

    def _show_over(self) -> None:
        """Show the rest of what waits no more."""
        for turn in list(self._aside.values()):
            run = self._api.get(f"/runs/{quote(turn.id, safe='')}")
            if run.get("status", "suspended") != "suspended":
                del self._aside[turn.id]
                self._complete(turn)

    def _show_waiting(self) -> None:
        """Show what waits, and the rest of what waits no more."""
        self._show_over()
        for number, (_, pending) in enumerate(self._waiting(), 1):
            others = is_for_others(pending)
            how = "/approve or /deny" if pending["kind"] == "approval" else "/decide or /deny"
            which = f" {number}" if len(self._waiting()) > 1 else ""
            self._terminal.note(
                f"{signature(pending)} waits{which and f' ({number})'}: "
                f"{'others decide' if others else f'{how}{which}'}"
            )

    def _waiting(self) -> list[tuple["Turn", Json]]:
        """Return the calls that wait next to the conversation, each with its run."""
        turns = self._aside.values()
        return [(turn, call) for turn in turns for call in turn.answer.waiting.values()]

    def _decide(self, number: int, answer: str | None) -> bool:
        """Decide the call of this number, and show what its run says then."""
        waiting = self._waiting()
        if not 1 <= number <= len(waiting):
            self._terminal.note("nothing waits" if not waiting else f"1 to {len(waiting)} wait")
            return True
        turn, pending = waiting[number - 1]
        try:
            is_decided = decide(self._api, self._terminal, pending, answer)
        except SaidInstead as said:
            self._lines.append(said.line)
            return True
        if not is_decided:
            return self._terminal.interactive
        del self._aside[turn.id]
        return self._complete(turn)

    def _complete(self, turn: "Turn") -> bool:
        """Show the run to its end. Ctrl-C cancels it, a second one leaves it. Return False if the run waits
        for a person and no person is present.

        Whatever Ctrl-C interrupts is done again from the turn's present state."""
        presses = 0
        while True:
            try:
                if not self._begin(turn):
                    return True
                if turn.id in self._aside and turn.status == "suspended":
                    # A run that waits was sent the message.
                    self._aside[turn.id] = self._aside.pop(turn.id)
                    self._terminal.note("it reads this once its call is decided")
                    return True
                turn = self._aside.pop(turn.id, turn)
                if presses and not turn.answer.status:
                    self._terminal.note("cancelling ... (again to leave it)")
                    path = f"/runs/{quote(turn.id, safe='')}/cancel"
                    self._try(partial(self._api.post, path))
                return self._follow(turn)
            except KeyboardInterrupt:
                presses += 1
                if presses > 1:
                    return self._leave(turn)

    def _begin(self, turn: "Turn") -> bool:
        """Return False if the API refused the run."""

        def begin() -> None:
            assert turn.post is not None
            run = turn.post()
            turn.id, turn.status = run["id"], run.get("status", "")
            self._talk.files = []

        return bool(turn.id) or self._try(begin)

    def _follow(self, turn: "Turn") -> bool:
        """Show the run's new events until nothing can follow."""
        after = turn.pages.after if turn.pages else 0
        turn.pages = Pages(self._api, turn.id, after, self._wait, self._pause)
        for page in turn.pages:
            for event in page:
                turn.answer.show(event)
            try:
                if not self._decide_waiting(turn):
                    return self._leave(turn)
            except SaidInstead as said:
                self._aside[turn.id] = turn
                self._lines.append(said.line)
                return True
            waiting = turn.answer.waiting.values()
            if waiting and all(map(is_for_others, waiting)):
                # Nobody here can do anything about it, so the conversation goes on.
                self._aside[turn.id] = turn
                return True
        self.ended_badly = turn.answer.status == "failed"
        if turn.answer.usage is not None:
            self._talk.count(turn.answer.usage)
        return True

    def _decide_waiting(self, turn: "Turn") -> bool:
        """Ask about waiting calls. Return False if there is no person to ask."""
        for pending in list(turn.answer.waiting.values()):
            key = _key(pending)
            if key in turn.others_calls:
                continue
            turn.others_calls.add(key)
            if not decide(self._api, self._terminal, pending):
                if not self._terminal.interactive:
                    return False
                if not is_for_others(pending):
                    self._terminal.note("it waits; Ctrl-C cancels the run")
        return True

    def _leave(self, turn: "Turn") -> bool:
        how = f"{turn.id} waits: {self._talk.command} --thread {self._talk.thread_id}"
        self._terminal.note(how if turn.id else "/exit ends")
        return self._terminal.interactive

    def _wait(self, error: ApiError, tries: int) -> None:
        """Wait before a lost connection is tried again. Raises ApiError after too many tries."""
        if error.exit_code != NO_ANSWER or tries > _RETRIES:
            raise error
        if tries == 1:
            self._terminal.note(f"{error}; trying again")
        self._pause(_RETRY_S)


@dataclass
class Turn:
    """A run of the conversation, as far as it is known here.

    `id`: empty until the API has answered `post`, which begins it and may be repeated. `others_calls`: calls
    and attempts that other people decide."""

    answer: Answer
    id: str = ""
    status: str = ""
    """The run's, as the API answered `post`."""
    post: Callable[[], Json] | None = None
    pages: "Pages | None" = None
    others_calls: set[tuple[str, int]] = field(default_factory=set)


def _key(pending: Json) -> tuple[str, int]:
    return pending["tool_call_id"], pending["attempt"]


class Pages(Iterator[list[Json]]):
    """Pages of a run's events, after the number `after`, until none can follow."""

    def __init__(
        self,
        api: Api,
        run_id: str,
        after: int,
        wait: Callable[[ApiError, int], None],
        pause: Callable[[float], None],
    ) -> None:
        self._api = api
        self.path = f"/runs/{quote(run_id, safe='')}/events"
        self._wait = wait
        self._pause = pause
        self._empty_streams = 0
        """Streams in a row that had no event."""
        self._done = False
        self._open: Iterator[Json] = iter(())
        self._is_stream_over = False
        """The previous stream has ended. A request without a stream tells whether anything can follow."""
        self.after = after

    def __next__(self) -> list[Json]:
        """The next page, which may be empty. Raises StopIteration and ApiError."""
        if self._done:
            raise StopIteration
        tries = 0
        while True:
            try:
                page = self._next_page()
                break
            except ApiError as error:
                tries += 1
                self._open, self._is_stream_over = iter(()), False
                self._wait(error, tries)
        self.after, self._done = max(self.after, page["last_seq"]), page["done"]
        items: list[Json] = page["items"]
        return items

    def _next_page(self) -> Json:
        """The next page of the open stream, of a new one, or of the log if a stream has ended."""
        page = next(self._open, None)
        if page is None and self._is_stream_over:
            self._is_stream_over = False
            page = dict(self._api.get(self.path, after=self.after))
            if page["items"]:
                self._empty_streams = 0
            return page
        if page is None:
            if self._empty_streams:
                self._pause(_GLANCES_S[min(self._empty_streams, len(_GLANCES_S)) - 1])
            self._open = self._api.follow(self.path, after=self.after, wait=LONG_POLL_S)
            page = next(self._open, None)
            self._empty_streams = self._empty_streams + 1 if page is None else 0
        self._is_stream_over = True
        return page or {"items": [], "last_seq": self.after, "done": False}


def connect(url: str, user: str, tokens: TokenFile, local: str = LOCAL) -> Api:
    """The API of a deployment as the signed-in user, or of this machine (`local`) as `user`. Raises
    ApiError."""
    where = url or (local if user else tokens.last() or local)
    if user or urlsplit(where).hostname in LOOPBACK:
        return Api(where, f"dev:{user or LOCAL_USER}")
    return Api(where, tokens.access(where))


def command_of(url: str, user: str) -> str:
    """Return the command that talks to this system as this user again. Options that were not given: empty."""
    options = (("--url", url), ("--user", user))
    return f"{COMMAND} {shlex.join(word for each in options if each[1] for word in each)}".rstrip()


def choose(api: Api, agent: str | None) -> str:
    """The agent of this name, or the first. Raises ApiError."""
    names = [str(each["name"]) for each in api.get("/agents", limit=100)["items"]]
    if not names:
        raise ApiError(
            NO_AGENTS,
            REFUSED,
        )
    if agent is not None and agent not in names:
        raise ApiError(unknown_agent(agent, names), USAGE)
    return agent or names[0]


@report_failure
def main(
    api: Api,
    terminal: Terminal,
    agent: str | None,
    thread_id: str | None,
    command: str = COMMAND,
) -> int:
    """Talk until the input ends. Return the exit code: 1 if the last run failed. `command`: what a person
    types to talk to the same system as the same user."""
    try:
        if thread_id is not None and agent is None:
            agent = str(api.get(f"/threads/{quote(thread_id, safe='')}")["agent"])
        talk = Talk(choose(api, agent), thread_id, command)
        chat = Chat(api, terminal, talk)
        chat.hold()
    except KeyboardInterrupt:
        return INTERRUPTED
    if talk.runs > 1:
        terminal.note(f"in all {usage_line(talk.usage)}")
    return REFUSED if chat.ended_badly else 0
