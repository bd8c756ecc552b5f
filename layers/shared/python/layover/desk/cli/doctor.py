"""`layover doctor`: a deployment from end to end, a line for each part that has to work."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from layover.desk.cli import readiness
from layover.desk.cli.client import NO_AGENTS, USAGE, Api, ApiError
from layover.desk.cli.deploy.machine import Machine
from layover.desk.cli.releases import releases, system_of
from layover.desk.cli.tokens import LOCAL, LOCAL_USER, TokenFile, caller
from layover.desk.failures import CommandFailed, report_failure
from layover.desk.local.doors import LOOPBACK
from layover.errors import unknown_agent
from layover.project import Project

WAKING_S = 120.0
"""The time in which a sleeping database has to answer."""
RUN_S = 180.0
"""The time in which a run with one model call has to be over, a cold start and a waking database included."""
SOCKET_S = 15.0
"""A socket has to open within so many seconds (a cold start), and then to answer within as many."""
_AGAIN_S = 5.0
QUESTION = "This is a test of the system. Answer with one word."


def ping(url: str) -> None:
    """Open a socket, say ping and hear pong. The URL has a ticket, so it never appears in an error. Raises
    ApiError."""
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect

    # The environment's proxy cannot reach this machine.
    proxy: Literal[True] | None = None if urlsplit(url).hostname in LOOPBACK else True
    try:
        with connect(url, open_timeout=SOCKET_S, close_timeout=1, proxy=proxy) as socket:
            socket.send('{"action": "ping"}')
            answer = json.loads(socket.recv(timeout=SOCKET_S))
    except InvalidStatus as error:
        problem = f"the socket was refused ({error.response.status_code}): see the log of `sockets`"
        raise ApiError(problem, 1) from error
    except TimeoutError as error:
        raise ApiError(f"no pong within {SOCKET_S:.0f} s: see the log of `sockets`", 3) from error
    except (OSError, WebSocketException, ValueError, ImportError) as error:  # SOCKS is an extra
        raise ApiError(f"the socket broke: {type(error).__name__}", 3) from error
    if answer != {"action": "pong"}:
        raise ApiError("the socket answered a ping with something other than pong", 1)


@dataclass(frozen=True)
class Doctor:
    """Examines one deployment as one of its users. `stranger` has no token."""

    api: Api
    stranger: Api
    pause: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    ping: Callable[[str], None] = ping
    releases: Callable[[], str] | None = None

    def examine(self, agent: str | None, *, run: bool) -> int:
        """Print a line for each check, and return 0 if all is well. The first failure ends it, because later
        checks depend on earlier ones; only on the comparison of releases none depends."""
        compared = 0 if self.releases is None else self._take("releases", self.releases)
        checks: list[tuple[str, Callable[[], str]]] = [
            ("health", lambda: str(self.stranger.get("/healthz")["status"])),
            ("strangers", self._strangers),
            ("sign-in", lambda: ", ".join(self._names()) or NO_AGENTS),
            ("database", self._database),
            ("sockets", self._sockets),
        ]
        if run:
            checks.append(("run", lambda: self._run(agent)))
        codes = (self._take(name, check) for name, check in checks)
        return next((code for code in codes if code), compared)

    @staticmethod
    def _take(name: str, check: Callable[[], str]) -> int:
        try:
            print(f"ok    {name}: {check()}", flush=True)
        except ApiError as error:
            print(f"FAIL  {name}: {error}", file=sys.stderr, flush=True)
            return error.exit_code
        return 0

    def _strangers(self) -> str:
        try:
            self.stranger.get("/agents")
        except ApiError as error:
            if error.status == 401:
                return "refused without a token"
            raise
        raise ApiError("the API answers without a token: check its authorizer", 1)

    def _database(self) -> str:
        agent = next(iter(self._names()), "none")
        start = self.now()
        while True:
            try:
                self.api.get("/memory/profile", agent=agent)
            except ApiError as error:
                waiting_s = self.now() - start
                if error.status == 503 and waiting_s < WAKING_S:
                    self.pause(_AGAIN_S)
                    continue
                if error.status != 404:
                    raise
            return f"answers after {self.now() - start:.0f} s"

    def _sockets(self) -> str:
        try:
            url = str(self.api.post("/socket-tickets")["url"])
        except ApiError as error:
            if error.status != 404:
                raise
            return "none here: events are polled"
        self.ping(url)
        return "pong from " + url.split("?")[0]

    def _run(self, agent: str | None) -> str:
        """Ask one question. The thread is always deleted."""
        names = self._names()
        if not names:
            raise ApiError("there is no agent to ask", 1)
        if agent is not None and agent not in names:
            raise ApiError(unknown_agent(agent, names), USAGE)
        agent_name = agent or names[0]
        thread = self.api.post("/threads", agent=agent_name, title="layover doctor")["id"]
        try:
            return f"{agent_name} {self._outcome(thread)}"
        finally:
            self.api.delete(f"/threads/{quote(thread, safe='')}")

    def _outcome(self, thread: str) -> str:
        start = self.now()
        run = self.api.post(f"/threads/{quote(thread, safe='')}/runs", input=QUESTION)
        while run["status"] in ("queued", "running") and self.now() - start < RUN_S:
            run = self.api.get(f"/runs/{quote(run['id'], safe='')}", wait=20)
        took = f"after {self.now() - start:.0f} s"
        if run["status"] in ("success", "suspended"):
            return f"{_usage_line(run['usage'])} {took}"
        raise ApiError(f"{run['id']} is {run['status']} {took}: {self._why(run)}", 1)

    def _why(self, run: dict[str, Any]) -> str:
        """Return why a run failed: in its provider's words, if this user is an operator."""
        if not (error := run.get("error")):
            return "no error is named"
        detail = None
        try:
            operated = self.api.get(f"/operate/runs/{quote(run['id'], safe='')}")
            detail = operated["error"]["detail"]
        except ApiError as refusal:
            if refusal.status not in (403, 404):
                raise
        return f"{error['type']}: {(detail or error)['message']}"

    def _names(self) -> list[str]:
        return [str(a["name"]) for a in self.api.get("/agents", limit=100)["items"]]


def _usage_line(usage: dict[str, Any]) -> str:
    cost = usage.get("cost_usd")
    price = "price unknown" if cost is None else f"{cost:.6f} US dollars"
    return f"answered with {usage['total_tokens']} tokens ({price})"


@report_failure
def main(
    url: str,
    user: str,
    tokens: TokenFile,
    agent: str | None,
    *,
    run: bool,
    local: str = LOCAL,
    project: Project | None = None,
    stage: str | None = None,
    machine: Machine | None = None,
    client: Callable[..., Any] | None = None,
) -> int:
    """Examine a deployment as the user who is signed in there, or a system on this machine (`local`, if no
    `url` says where) as `user`, or as its own user where nobody has signed in. `stage`: the deployment that
    is meant, if no `url` is given; its release is compared, and what its agents need. `machine`, `client`: as
    for `layover deploy`, and like that of a boto3 Session."""
    lacking = 0
    if stage is not None:
        # What a stage lacks is known before it is deployed, so it is told first.
        lacking = readiness.main(project, stage)
        lacking = _say_lacks(project, stage, machine or Machine()) or lacking
        try:
            url = url or _address_of(project, stage, client)
        except ApiError as error:
            print(f"FAIL  system: {error}", file=sys.stderr, flush=True)
            return error.exit_code
    is_here = (
        urlsplit(url).hostname in LOOPBACK and not tokens.has(url) if url else not tokens.last()
    )
    who = user or (LOCAL_USER if is_here else "")
    where, token = caller(url, who, "", tokens, local)
    doctor = Doctor(
        Api(where, token), Api(where, ""), releases=lambda: releases(project, stage, client).check()
    )
    return doctor.examine(agent, run=run) or lacking


def _say_lacks(project: Project | None, stage: str, machine: Machine) -> int:
    """Print what the project's agents need and the stage lacks. Return 1 if it cannot run without it."""
    from layover.desk.cli.deploy.stage_check import lacks

    if project is None:
        return 0
    try:
        all_lacks = lacks(project, {"stage": stage}, partial(machine.import_agents, project))
    except ValueError as error:
        raise CommandFailed(str(error)) from error
    for each in all_lacks:
        word = "FAIL " if each.fails else "warn "
        print(f"{word} stage: {stage} {each.words}", file=sys.stderr if each.fails else sys.stdout)
    if not all_lacks:
        print(
            f"ok    stage: {stage} lacks nothing that the code of the agents asks for", flush=True
        )
    return int(any(each.fails for each in all_lacks))


def _address_of(project: Project | None, stage: str, client: Callable[..., Any] | None) -> str:
    """Return the address of the stage's API. Raises ApiError: no other system may be asked instead."""
    name, system = system_of(project, stage, client)
    if system is None or not system.outputs.get("ApiUrl"):
        raise ApiError(
            f"no stack of this account and region has {name}: `layover deploy --stage {stage}` makes it; "
            "check AWS_PROFILE and AWS_REGION, or give the address by --url",
            1,
        )
    return system.outputs["ApiUrl"]
