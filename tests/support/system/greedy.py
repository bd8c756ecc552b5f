"""A user who holds everything that one user may hold at once."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Self

import httpx2

from layover.values.deployment.settings import Settings
from layover.values.lease import MAX_SOCKETS, MAX_UPLOADS
from support.providers.openai import call, say
from support.system.follower import Follower
from support.system.system import Brain, Caller, System, eventually, unique

STREAMS = Settings().max_user_streams
POLLS = Settings().max_user_waits
FILE = {"name": "a.txt", "mime_type": "text/plain", "size": 1}
_LIMIT_S = 120.0
"""The wait for the start of an environment that one request occupies."""
_PAUSE_S = 0.25


class Greedy:
    """While the block lasts, the user holds all streams and long polls, sockets and announced files that one
    may, all about one run whose model thinks as long as that."""

    def __init__(self, system: System, brain: Brain) -> None:
        self.caller = system.caller()
        self._system = system
        self._brain = brain
        self._over = threading.Event()
        self._answers = threading.Event()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        ann = self.caller
        # The provider keeps nobody waiting for longer than 90 s: then comes the next step.
        thoughts = [call("look_up", key=unique()) for _ in range(8)]
        steps = [replace(thought, hold=self._answers) for thought in thoughts]
        self._run = ann.start(ann.thread(), self._brain.plan(*steps, say("done")))
        self._readers = [threading.Thread(target=self._poll) for _ in range(POLLS)]
        self._readers += [threading.Thread(target=self._stream) for _ in range(STREAMS)]
        try:
            for thread in self._readers:
                thread.start()
            for _ in range(MAX_SOCKETS):
                socket = self._stack.enter_context(Follower.of(ann))
                socket.subscribe(self.run_id)
            for _ in range(MAX_UPLOADS):
                ann.want(201, "POST", "/files", FILE)
            eventually(lambda: self.waiting >= STREAMS + POLLS, within=_LIMIT_S)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    @property
    def run_id(self) -> str:
        """The run that everything follows."""
        return str(self._run["id"])

    @property
    def waiting(self) -> int:
        """The number of environments that requests keep from others, whichever user sent them."""
        return sum(each["busy"] for each in self._system.environments("api", "streams"))

    def _poll(self) -> None:
        """Ask again whenever there is an answer."""
        caller = self._system.caller(self.caller.name)
        path = f"/runs/{self.run_id}/events?after=100&wait=25"
        while not self._over.is_set():
            caller.get(path)
            self._over.wait(_PAUSE_S)

    def _stream(self) -> None:
        """Come back whenever the stream has ended, as it does after a silence."""
        while not self._over.is_set():
            with streamed(self._system, self.caller, self.run_id) as lines:
                for _ in lines:
                    pass
            self._over.wait(_PAUSE_S)

    def _leave(self) -> None:
        self._over.set()
        self._stack.close()
        # The end of the run answers all who wait for it.
        self.caller.call("POST", f"/runs/{self.run_id}/cancel")
        self._answers.set()
        for thread in self._readers:
            if thread.ident is not None:
                thread.join(_LIMIT_S)


@contextmanager
def streamed(system: System, caller: Caller, run_id: str) -> Iterator[Iterator[str]]:
    """Lines of a run's events, streamed to this user; the first one is there."""
    headers = {"authorization": f"Bearer dev:{caller.name}", "accept": "text/event-stream"}
    with (
        httpx2.Client(
            base_url=system.url, headers=headers, timeout=_LIMIT_S, trust_env=False, verify=False
        ) as client,
        client.stream("GET", f"/runs/{run_id}/events") as response,
    ):
        assert response.status_code == 200
        lines = response.iter_lines()
        next(lines)
        yield lines
