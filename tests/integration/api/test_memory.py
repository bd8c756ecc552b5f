"""Profiles, and the memory of a thread."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from integration.api.kit import Api
from layover import Agent, Memory, WorkingMemory
from layover.errors import DatabaseWaking
from layover.plugins.memory.reads.profile.notes import working_key
from layover.values.memory.context import LoggedAttempt
from layover.values.note import profile_key
from support.worlds.services import ANN, BOB

PROFILE = "/memory/profile?agent=support"


class Asleep:
    """A store of memory that was just woken."""

    def __getattr__(self, name: str) -> Any:
        async def ask(*args: Any, **kwargs: Any) -> Any:
            raise DatabaseWaking("the database is waking up")

        return ask


def stored_thread(api: Api) -> str:
    """A thread that the database knows: it has had a run."""

    async def make() -> str:
        thread = await api.world.thread()
        run = await api.world.run(thread.id)
        await api.world.finish(run.id)
        return thread.id

    return api.do(make())


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_sleeping_database_is_told_and_waked(api: Api, method: str) -> None:
    api.world.runtime = replace(api.world.runtime, memory=Asleep())
    body: Any = {"profile": {}} if method == "PUT" else None
    problem = api.send(method, PROFILE, body)
    problem.problem(503, "database-waking")
    assert problem.headers["retry-after"] == "5"


def test_the_memory_of_a_thread_waits_for_the_database_as_well(api: Api) -> None:
    thread = stored_thread(api)
    api.world.runtime = replace(api.world.runtime, memory=Asleep())
    api.get(f"/threads/{thread}/memory").problem(503, "database-waking")


def test_nobody_reads_without_a_token(api: Api) -> None:
    assert api.get(PROFILE, sub=None).status == 401
    assert api.get("/threads/x/memory", sub=None).status == 401


def test_foreign_deleted_and_unknown_threads_have_no_memory(api: Api) -> None:
    thread = stored_thread(api)
    api.get(f"/threads/{thread}/memory", sub=BOB).problem(404, "not-found")
    api.get("/threads/nowhere/memory").problem(404, "not-found")
    assert api.send("DELETE", f"/threads/{thread}").status == 204
    api.get(f"/threads/{thread}/memory").problem(404, "not-found")


@pytest.mark.parametrize(
    "body", [{}, {"profile": None}, {"profile": 5}, {"profile": ["x"]}, {"profile": {}, "x": 1}]
)
def test_a_profile_is_an_object_or_a_text(api: Api, body: dict[str, Any]) -> None:
    problem = api.send("PUT", PROFILE, body).problem(422, "invalid-request")
    assert problem["errors"]


def test_a_profile_belongs_to_an_agent_that_is_there(api: Api) -> None:
    assert api.get("/memory/profile").status == 422
    for method, body in (("GET", None), ("PUT", {"profile": "x"})):
        problem = api.send(method, "/memory/profile?agent=nobody", body)
        assert problem.problem(422, "unknown-agent")["errors"][0]["loc"] == ["query", "agent"]


def test_a_profile_is_bounded(api: Api) -> None:
    api.send("PUT", PROFILE, {"profile": "x" * 70_000}).problem(413, "too-large")
    deep: Any = "x"
    for _ in range(200):
        deep = {"x": deep}
    api.send("PUT", PROFILE, {"profile": deep}).problem(422, "invalid-request")


def test_a_profile_that_is_not_there_is_empty(api: Api) -> None:
    empty: Any = {"agent": "support", "profile": {}, "updated_at": None}
    assert api.get(PROFILE).json == empty
    assert api.send("DELETE", PROFILE).status == 204
    assert api.get(PROFILE).json == empty


@pytest.mark.parametrize("profile", [{"city": "Bern", "tags": [1, None]}, "lives in Bern", {}, ""])
def test_a_profile_is_replaced_whole_and_forgotten(api: Api, profile: Any) -> None:
    assert api.send("PUT", PROFILE, {"profile": {"old": True}}).status == 200
    put = api.send("PUT", PROFILE, {"profile": profile})
    assert (put.status, put.json["profile"]) == (200, profile)
    assert put.json["updated_at"].endswith("Z")
    assert api.get(PROFILE).json == put.json
    assert api.send("DELETE", PROFILE).status == 204
    assert api.get(PROFILE).json["profile"] == {}


def test_a_profile_has_no_character_that_nobody_can_store(api: Api) -> None:
    put = api.send("PUT", PROFILE, text='{"profile": {"a\\u0000": "b\\ud800"}}')
    assert put.json["profile"] == {"a\ufffd": "b\ufffd"}


def test_profiles_are_kept_apart_by_user_and_by_agent(api: Api) -> None:
    api.send("PUT", PROFILE, {"profile": "mine"})
    assert api.get(PROFILE, sub=BOB).json["profile"] == {}
    assert api.get("/memory/profile?agent=plain").json["profile"] == {}
    assert api.send("DELETE", PROFILE, sub=BOB).status == 204
    assert api.get(PROFILE).json["profile"] == "mine"


def test_the_profile_of_an_agent_that_is_gone_can_be_read_and_forgotten(api: Api) -> None:
    api.send("PUT", PROFILE, {"profile": "mine"})
    api.world.agents = {}
    assert api.get(PROFILE).json["profile"] == "mine"
    assert api.send("DELETE", PROFILE).status == 204


def test_a_new_thread_starts_from_nothing(api: Api) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    found = api.get(f"/threads/{thread}/memory").json
    assert found == {
        "observations": [],
        "summary": None,
        "working_memory": None,
        "session": None,
        "plan": None,
        "iteration_log": [],
        "token_counts": {
            "observations": 0,
            "summary": 0,
            "working_memory": 0,
            "session": 0,
            "plan": 0,
            "iteration_log": 0,
        },
    }


def test_the_memory_of_a_thread_shows_what_was_kept(api: Api) -> None:
    remembers = Memory(working_memory=WorkingMemory(scope="thread"), plan=True, profile=True)
    agent = Agent("support", memory=remembers)
    api.world.agents = {"support": agent}
    thread = stored_thread(api)
    memory, now = api.world.runtime.memory, api.world.clock.now()
    key = working_key(agent, thread)
    assert key is not None
    api.do(memory.replace_note(ANN, key, "likes tea", now))
    api.do(memory.replace_note(ANN, profile_key("support"), "not of the thread", now))
    api.do(memory.write_plan(ANN, thread, {"goal": "g", "steps": []}, now))
    tried = LoggedAttempt(task="deploy", action="push", error="no disk", created_at=now)
    api.do(memory.log_attempt(ANN, thread, tried, "1"))
    api.world.clock.advance(timedelta(seconds=1))
    found = api.get(f"/threads/{thread}/memory").json
    assert found["working_memory"] == "likes tea"
    assert found["plan"] == {"goal": "g", "steps": []}
    (line,) = found["iteration_log"]
    assert (line["task"], line["attempt"], line["error"]) == ("deploy", 1, "no disk")
    counts = found["token_counts"]
    assert all(counts[part] > 0 for part in ("working_memory", "plan", "iteration_log"))
    assert counts["session"] == 0
