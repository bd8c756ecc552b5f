"""The whole system, with points to die at, and a patient user of it."""

import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2

from layover.clock import SystemClock
from layover.keys import HEAD, META, Keys, due_key, link_key
from layover.ports.channels import Link
from support.agents import ledger
from support.event_source import EventSource
from support.kills.accounts import consent_at
from support.kills.outages import Outages
from support.kills.story import Line, Point, Scenario, Story
from support.providers.openai import say
from support.system.documented import Response
from support.system.follower import is_over
from support.system.system import Brain, Caller, Json, System, eventually, unique

PAUSE_S = 0.2
"""Between two looks: many clients look at once."""
DEADLINE_S = 240.0
"""For a whole run, with whatever happens to it and to the others, on a machine that is busy."""
STOP_S = 60.0
"""After hundreds of runs, on a busy machine, a stop takes longer."""
STREAM_S = 30.0
"""Without a byte; a stream says every 10 s that it is there."""
OVER = ("success", "failed", "cancelled")
_SERVER_ERRORS = range(500, 600)
_SAVED = """select m.id from messages m join threads t on t.key = m.thread
where t.resource_id = %s and t.id = %s order by m.created_at, m.id"""
NEXT = Scenario("next", (say("my turn"),), "please go on with the next one")
"""The run that follows another one on its thread."""
_TABLES = "select table_name from information_schema.columns where column_name = 'resource_id'"
_USED = """select agent, model, sum(input_tokens), sum(output_tokens) from usage
where run_id = %s and kind = 'run' group by agent, model order by agent, model"""


class Torture(System):
    """The whole system, with points to die at."""

    stops_within_s = STOP_S
    of_this_start = (*System.of_this_start, "states", "table")

    def __init__(self, folder: Path, brain: Brain, **variables: str) -> None:
        super().__init__(folder, brain, checked=False)
        self.control = folder / "control"
        self.control.mkdir(parents=True)
        self.more = variables
        self.outages: Outages | None = None
        """The stories' outages of the database, in a system whose matrix has them."""
        self._lock = threading.Lock()
        self._plans: dict[str, str] = {}

    def _variables(self) -> dict[str, str]:
        ours = {
            "LAYOVER_LOCAL_PRELOAD": "support.kills.points",
            "LAYOVER_TORTURE_FOLDER": str(self.control),
        }
        return super()._variables() | ours | self.more

    def file(self, owner: str, kind: str) -> Path:
        """A control file of an owner."""
        return self.control / f"{Keys(owner).hash}.{kind}"

    def order_death(self, owner: str, point: Point, times: int = 1) -> None:
        """Have the process that reaches the point die there, this many times in a row, in addition to earlier
        orders for this owner."""
        path = self.file(owner, "kill")
        orders = json.loads(path.read_text()) if path.exists() else []
        made = path.with_suffix(".ordered")
        made.write_text(json.dumps([*orders, {**asdict(point), "times": times}]))
        made.rename(path)

    def leave_untraced(self, owner: str) -> None:
        """Trace no work for this owner, who can then be given no death. A trace is read whole at each of its
        points."""
        self.file(owner, "untraced").touch()

    def deaths(self, owner: str, function: str = "") -> int:
        """Return how often processes (of this function) died for the owner."""
        trace = self.trace(owner)
        return sum(x.died is not None and function in ("", x.function) for x in trace)

    def trace(self, owner: str) -> list[Line]:
        """Return the work done for an owner so far."""
        path = self.file(owner, "trace")
        lines = path.read_text().splitlines() if path.exists() else []
        split = [line.split("\t") for line in lines]
        return [Line(m, f, p, int(k), int(pid), float(at)) for m, f, p, k, pid, at in split]

    def dead_senders(self, owner: str) -> int:
        """Return how many processes of `notify` that worked for the owner have died: one sends what several
        owners' events are about."""
        path = self.control / "dead"
        died = set(path.read_text().split()) if path.exists() else set()
        mine = {str(line.pid) for line in self.trace(owner) if line.function == "notify"}
        return len(mine & died)

    def queued(self, run_id: str) -> list[bool]:
        """Return the events about a run that nobody has been told of: True for those put aside."""
        path = self.folder / "data" / "aws.sqlite"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            rows = store.execute("SELECT dead FROM queue WHERE body LIKE ?", (f"%{run_id}%",))
            return [bool(dead) for (dead,) in rows]

    def ledger_of(self, owner: str) -> list[Json]:
        """Return the effects of tools for an owner."""
        return [entry for entry in ledger.entries(self.folder) if entry.get("owner") == owner]

    def input_of(self, scenario: Scenario) -> str:
        """The text that the model answers with the scenario's steps."""
        with self._lock:
            if scenario.name not in self._plans:
                self._plans[scenario.name] = self.brain.plan(*scenario.steps, text=scenario.text)
                for mark, steps in scenario.briefs.items():
                    self.brain.brief(mark, *steps)
            return self._plans[scenario.name]

    @cached_property
    def states(self) -> Any:
        """Step Functions."""
        client = self.aws("stepfunctions")
        _ = client.exceptions  # Made on first use, and not by two threads at once.
        return client

    @property
    def execution_arn(self) -> str:
        """Of an execution, but for its name."""
        return self.services["state_machine_arn"].replace(":stateMachine:", ":execution:")

    def executions(self, run_id: str, **only: str) -> list[str]:
        """Names of a run's executions (`statusFilter=`: those, which costs less). Listed, not counted up: a
        number may have been named by somebody who died before it was started."""
        pages = self.states.get_paginator("list_executions").paginate(
            stateMachineArn=self.services["state_machine_arn"],
            PaginationConfig={"PageSize": 1000},
            **only,
        )
        names = [str(each["name"]) for page in pages for each in page["executions"]]
        return [name for name in names if name.startswith(f"{run_id}-")]

    def at_work(self, run_id: str) -> list[str]:
        """Those that are not over."""
        return self.executions(run_id, statusFilter="RUNNING")

    def is_in(self, run_id: str, state: str) -> bool:
        """Return whether an execution of the run is in this state of the machine."""
        for name in self.at_work(run_id):
            arn = f"{self.execution_arn}:{name}"
            page = self.states.get_execution_history(
                executionArn=arn, reverseOrder=True, maxResults=1
            )
            entered = page["events"][0].get("stateEnteredEventDetails", {})
            if entered.get("name") == state:
                return True
        return False

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows, as the owner of the tables sees them."""
        import psycopg

        with psycopg.connect(self.services["postgres_admin"]) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def stop_execution(self, run_id: str, n: int = 1) -> None:
        """Nothing of an execution can catch this."""
        self.states.stop_execution(executionArn=f"{self.execution_arn}:{run_id}-{n}")

    @cached_property
    def table(self) -> Any:
        """DynamoDB, as `(pk, sk prefix) -> items`, in the wire's form."""
        dynamodb, name = self.aws("dynamodb"), self.services["table"]

        def items(pk: str, prefix: str = "") -> list[Json]:
            condition = "pk = :p" + (" AND begins_with(sk, :s)" if prefix else "")
            values = {":p": {"S": pk}} | ({":s": {"S": prefix}} if prefix else {})
            answer = dynamodb.query(
                TableName=name,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=values,
                ConsistentRead=True,
            )
            return list(answer["Items"])

        return items

    def link(self, owner: str, run_id: str, pending: Json, person: str) -> str:
        """Keep a link for a person, as whoever tells people does; return its path."""
        secret = secrets.token_urlsafe(32)
        link = Link(
            person=person,
            owner=owner,
            run_id=run_id,
            tool_call_id=pending["tool_call_id"],
            attempt=pending["attempt"],
            expires_at=SystemClock().now() + timedelta(days=1),
        )
        item = {"pk": Keys(owner).run(run_id), "sk": link_key(secret), "b": link.model_dump_json()}
        self.aws("dynamodb").put_item(
            TableName=self.services["table"],
            Item={name: {"S": value} for name, value in item.items()},
        )
        return f"/decide/{Keys(owner).hash}.{run_id}.{secret}"

    def watched(self, pk: str, sk: str) -> bool:
        """Return whether the sweeper still looks at this item."""
        places = [item.get("gsi2pk", {}).get("S", "") for item in self.table(pk, sk)]
        # A run that is over has a place in the lists of operators, at which the sweeper does not look.
        return any(place and not place.startswith("OVER#") for place in places)

    def left_of(self, owner: str, run_id: str) -> list[str]:
        """Records of a run, and objects of its owner in S3."""
        records = [f"{i['sk']['S']}" for i in self.table(Keys(owner).run(run_id))]
        listed = self.aws("s3").list_objects_v2(
            Bucket=self.services["bucket"], Prefix=f"u/{Keys(owner).hash}/"
        )
        return records + [o["Key"] for o in listed.get("Contents", ())]

    def left_of_user(self, owner: str, thread: str) -> list[str]:
        """Records of a user and of one of their threads, and rows of theirs in any table."""
        keys = Keys(owner)
        places = (keys.partition, keys.thread(thread), keys.grants)
        found = [i["sk"]["S"] for pk in places for i in self.table(pk)]
        return found + self.tables_with(owner)

    def tables_with(self, owner: str) -> list[str]:
        """Return the tables in which a user has rows."""
        tables = [name for (name,) in self.sql(_TABLES)]
        rows = f"select count(*) from {{}} where resource_id = '{owner}'"
        return [name for name in tables if self.sql(rows.format(name)) != [(0,)]]

    def saved(self, owner: str, thread: str) -> list[str]:
        """Ids of a thread's messages in the database, in order."""
        return [row[0] for row in self.sql(_SAVED, owner, thread)]

    @contextmanager
    def client(self, owner: str = "") -> Iterator["Client"]:
        """Yield a patient user of the API. Orders for it end with it: a process that did something for it
        last must not die while it works for another user."""
        caller = Caller(self.url, owner or unique("user"), None)
        try:
            yield Client(self, caller)
        finally:
            caller.close()
            self.file(caller.name, "kill").unlink(missing_ok=True)


class Client:
    """A client that behaves as the documentation asks: it repeats what failed with 5xx under the same key,
    takes 409 on a decision as done, and polls until the run is over."""

    def __init__(self, system: Torture, caller: Caller) -> None:
        self.system = system
        self.caller = caller
        self.caller.patient = True
        self.name = caller.name
        self._until = time.monotonic() + DEADLINE_S

    def give_until(self, seconds: float) -> None:
        """From now on."""
        self._until = time.monotonic() + seconds

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        """The first answer that is not a server error."""
        while (answer := self.caller.call(method, path, body, **headers)).status in _SERVER_ERRORS:
            assert time.monotonic() < self._until, f"{method} {path}: {answer}"
            time.sleep(PAUSE_S)
        return answer

    def want(self, status: int, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Its body."""
        answer = self.ask(method, path, body, **headers)
        assert answer.status == status, f"{method} {path}: {answer}"
        return answer.body

    def thread(self, agent: str = "torture") -> str:
        """A new thread."""
        return str(self.want(201, "POST", "/threads", {"agent": agent})["id"])

    def start(self, thread: str, scenario: Scenario, **more: Any) -> str:
        """A run that was accepted."""
        body = {"input": self.system.input_of(scenario), "stream": scenario.stream, **more}
        path = f"/threads/{thread}/runs"
        run = self.want(202, "POST", path, body, idempotency_key=unique("key"))
        return str(run["id"])

    def run(self, run_id: str, wait: float = 0) -> Json:
        """The run."""
        return dict(self.want(200, "GET", f"/runs/{run_id}?wait={wait:g}"))

    def drive(self, run_id: str) -> Json:
        """Decide whatever waits, until the run is over."""
        done: set[tuple[str, int]] = set()
        while True:
            run = self.run(run_id, 0 if done else 2)
            if run["status"] in OVER:
                return run
            assert time.monotonic() < self._until, f"not over in time: {run}"
            fresh = [p for p in run["pending"] if (p["tool_call_id"], p["attempt"]) not in done]
            for pending in fresh:
                self.decide(run_id, pending)
                done.add((pending["tool_call_id"], pending["attempt"]))
            if not fresh:
                time.sleep(PAUSE_S)

    def decide(self, run_id: str, pending: Json) -> None:
        """Approve; of a booking's slots, take `other` first."""
        if pending["kind"] == "connect":
            self.consent(pending)
            return
        slot = "other" if pending["attempt"] == 1 else "10:00"
        verdict, body = (
            ("approve", {})
            if pending["kind"] == "approval"
            else ("resume", {"data": {"slot": slot}})
        )
        path = f"/runs/{run_id}/tool-calls/{pending['tool_call_id']}/{verdict}"
        answer = self.ask("POST", path, {**body, "attempt": pending["attempt"]})
        assert answer.status in (200, 202, 409), answer

    def consent(self, pending: Json) -> list[str]:
        """Consent at the service, and bring it back: again if a death has used the consent up. Return the
        pages at which it was given."""
        name, pages = pending["payload"]["connection"], list[str]()
        while True:
            pages.append(self.want(200, "POST", f"/me/connections/{name}")["authorize_url"])
            answer = self.ask("POST", "/me/consents", consent_at(pages[-1]))
            if answer.status == 200:
                return pages
            assert answer.status == 409, answer
            assert time.monotonic() < self._until, answer

    def suspended(self, run_id: str, calls: int) -> Json:
        """The run once so many calls wait, each with a token that was published."""
        # The list of events has those of all runs: it is asked for once this one waits.
        self.until(lambda: len(self.run(run_id)["pending"]) == calls, PAUSE_S)
        self.until(lambda: len(self.system.published(run_id)) >= calls, PAUSE_S)
        return eventually(lambda: self.run(run_id), lambda r: len(r["pending"]) == calls)

    def until(self, done: Callable[[], object], every: float = 0.02) -> None:
        """Wait for it as long as this client waits for anything."""
        eventually(done, within=self._until - time.monotonic(), every=every)

    def over(self, run_id: str) -> Json:
        """The run once it is over, without deciding anything."""
        while (run := self.run(run_id))["status"] not in OVER:
            assert time.monotonic() < self._until, f"not over in time: {run}"
            time.sleep(PAUSE_S)
        return run

    def over_without_database(self, run_id: str) -> None:
        """From the first death of a turn on, the database is away until the run is over."""
        assert self.system.outages is not None, "this system has no proxy before its database"
        self.until(lambda: self.system.deaths(self.name, "turn"))
        self.system.outages.cut()
        self.over(run_id)

    def follow(self, run_id: str) -> list[Json]:
        """The events as an `EventSource` gets them: it comes back until it is told to stay away, or the last
        event was there."""
        source = EventSource()
        headers = {"authorization": f"Bearer dev:{self.name}", "accept": "text/event-stream"}
        url = f"{self.system.url}/runs/{run_id}/events"
        with httpx2.Client(
            headers=headers, timeout=STREAM_S, trust_env=False, verify=False
        ) as client:
            while not is_over(source.seen):
                assert time.monotonic() < self._until, f"no end of the stream: {source.seen}"
                back = {"last-event-id": source.last_event_id} if source.last_event_id else {}
                with (
                    suppress(httpx2.TransportError),
                    client.stream("GET", url, headers=back) as got,
                ):
                    if got.status_code == 200:
                        for piece in got.iter_raw():
                            source.read(piece)
                source.break_off()
                # A stream of a run that waits for a person ends at once.
                time.sleep(PAUSE_S)
        return source.seen

    def story(self, scenario: Scenario) -> Story:
        """One run from its thread to the end of its execution."""
        outages = self.system.outages
        with outages.story() if outages else nullcontext():
            return self._story(scenario)

    def _story(self, scenario: Scenario) -> Story:
        for death in scenario.deaths:
            self.system.order_death(self.name, death.point, death.times)
        story = Story(scenario, self.name)
        began = time.monotonic()
        if scenario.open:
            thread, run_id = scenario.open(self, scenario)
        else:
            thread = self.thread(scenario.agent)
            run_id = self.start(thread, scenario)
        next_id = scenario.act(self, thread, run_id) if scenario.act else None
        if scenario.ends in ("erased", "forgotten"):
            return self._look_for(story, thread, run_id, began)
        for each in filter(None, (run_id, next_id)):
            self.drive(each)
        story.seconds = time.monotonic() - began
        for each in filter(None, (run_id, next_id)):
            self.finished(each)
        if next_id:
            story.then = self.look(Story(NEXT, self.name), thread, next_id)
        return self.look(story, thread, run_id)

    def finished(self, run_id: str) -> None:
        """Wait until nothing more is done for a run that is over. Until the sweeper has finished with it, it
        may start one more execution."""
        self.let_alone(Keys(self.name).run(run_id), META)
        self.closed(run_id)

    def closed(self, run_id: str) -> None:
        """Wait until no execution of the run is open."""
        while self.system.at_work(run_id):
            assert time.monotonic() < self._until, "an execution does not end"
            time.sleep(PAUSE_S)

    def let_alone(self, pk: str, sk: str) -> None:
        """Wait until the sweeper has nothing more to do about it."""
        while self.system.watched(pk, sk):
            assert time.monotonic() < self._until, "the sweeper comes to no end"
            time.sleep(PAUSE_S)

    def look(self, story: Story, thread: str, run_id: str) -> Story:
        """Everything that can be seen of the run by now."""
        system = self.system
        story.run = self.run(run_id)
        story.thread = self.want(200, "GET", f"/threads/{thread}")
        story.messages = self.caller.messages(thread)
        story.events = self.caller.events(run_id)
        story.approvals = self.want(200, "GET", "/approvals")["items"]
        story.at_work = system.at_work(run_id)
        story.rows = system.saved(self.name, thread)
        story.usage = system.sql(_USED, run_id)
        story.ledger = [e for e in system.ledger_of(self.name) if e["run"] == run_id]
        story.trace = system.trace(self.name)
        return story

    def _look_for(self, story: Story, thread: str, run_id: str, began: float) -> Story:
        """Wait until a deleted thread is erased, and return the story of what is left."""
        system = self.system
        self.let_alone(Keys(self.name).thread(thread), HEAD)
        self.let_alone(Keys(self.name).partition, due_key("owner", ""))
        self.let_alone(Keys(self.name).partition, due_key("grant", ""))
        story.seconds = time.monotonic() - began
        self.closed(run_id)
        assert self.ask("GET", f"/threads/{thread}").status == 404
        assert self.ask("GET", f"/runs/{run_id}").status == 404
        story.approvals = self.want(200, "GET", "/approvals")["items"]
        story.at_work = system.at_work(run_id)
        story.rows = system.saved(self.name, thread)
        story.left = system.left_of(self.name, run_id)
        if story.scenario.ends == "forgotten":
            story.left += system.left_of_user(self.name, thread)
        story.ledger = system.ledger_of(self.name)
        story.trace = system.trace(self.name)
        return story
