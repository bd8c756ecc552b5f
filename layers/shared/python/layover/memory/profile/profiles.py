"""Profiles, which their owners read and change, and to which turns add."""

import logging
from dataclasses import dataclass
from typing import Any

from layover.context.transcript import response_messages
from layover.declare.agent import Agent
from layover.errors import LayoverError, TooLarge, UnknownAgent
from layover.memory.profile import facts
from layover.memory.profile.notes import profile_key
from layover.memory.requests import ask, memory_model
from layover.memory.text.courtesies import is_courtesy
from layover.memory.usage import usage_row
from layover.runtime import Runtime
from layover.values.base import Json, Time, Value
from layover.values.memory.context import StepUsage
from layover.values.note import Note
from layover.values.runs.run import RunSnapshot
from layover.values.text import json_size, sanitise

MAX_PROFILE = 64 * 1024
"""Bytes of JSON."""

logger = logging.getLogger("layover")


class Profile(Value):
    """An agent's profile of a user: an object or a text; `{}` if it is still empty."""

    agent: str
    profile: dict[str, Json] | str
    updated_at: Time | None = None


async def get_profile(runtime: Runtime, owner: str, agent: str) -> Profile:
    """Return the owner's profile with this agent. Raises UnknownAgent if there never was one."""
    (note,) = await runtime.memory.read_notes(owner, [profile_key(agent)])
    if note.version == 0:
        _check_agent(runtime, agent)
    return _view(agent, note)


async def put_profile(
    runtime: Runtime, owner: str, agent: str, profile: dict[str, Json] | str
) -> Profile:
    """Replace the profile, whole. Raises InvalidRequest, TooLarge."""
    _check_agent(runtime, agent)
    value = sanitise(profile)
    if json_size(value) > MAX_PROFILE:
        raise TooLarge(f"the profile is larger than {MAX_PROFILE} bytes of JSON")
    write = await runtime.memory.replace_note(owner, profile_key(agent), value, runtime.clock.now())
    return _view(agent, write.note)


async def delete_profile(runtime: Runtime, owner: str, agent: str) -> None:
    """Forget the profile; a missing one is not an error."""
    await runtime.memory.delete_note(owner, profile_key(agent), runtime.clock.now())


@dataclass(frozen=True)
class ExtractedFacts:
    """A turn's additions."""

    profile: dict[str, str | None]
    session: list[facts.Fact]
    usage: tuple[StepUsage, ...] = ()


async def learn(runtime: Runtime, agent: Agent | None, snapshot: RunSnapshot) -> ExtractedFacts:
    """Extract the turn's facts about the user and the conversation, if the agent remembers those and the user
    does more than greet or thank. If the model fails, only this turn's facts are missing. Raises
    RetryableError."""
    meta = snapshot.meta
    turn = facts.turn_of([meta.input, *response_messages(snapshot)])
    if agent is None or all(is_courtesy(text) for text in turn.user):
        return ExtractedFacts({}, [])
    profile: dict[str, str | None] = {}
    session: list[facts.Fact] = []
    usage: list[StepUsage] = []
    if agent.memory.profile:
        (note,) = await runtime.memory.read_notes(meta.owner, [profile_key(agent.name)])
        answer = await _ask(runtime, agent, "profile", snapshot, turn, note.value, usage)
        profile = facts.profile_change(answer, turn, note.value)
    if agent.memory.session:
        state = await runtime.memory.read_state(meta.owner, meta.thread_id)
        answer = await _ask(runtime, agent, "session", snapshot, turn, state.session, usage)
        session = facts.session_facts(answer, turn)
    return ExtractedFacts(profile, session, tuple(usage))


async def _ask(
    runtime: Runtime,
    agent: Agent,
    task: str,
    snapshot: RunSnapshot,
    turn: facts.Turn,
    current: Any,
    usage: list[StepUsage],
) -> str:
    """Return the model's answer, "" if it failed; its usage goes to `usage`."""
    model = memory_model(runtime, agent, runtime.settings.extractor_model)
    prompt = facts.request(task, model, turn, current, snapshot.meta.input)
    try:
        reply = await ask(runtime, agent, snapshot.meta, prompt)
    except LayoverError as error:
        extra = {"run_id": snapshot.meta.id, "cause": type(error).__name__}
        logger.warning(f"no {task} update", extra=extra)
        return ""
    usage.append(usage_row(runtime, snapshot.meta, task, reply))
    return reply.text


def _check_agent(runtime: Runtime, agent: str) -> None:
    if agent not in runtime.agents():
        raise UnknownAgent(agent, runtime.agents(), "query")


def _view(agent: str, note: Note) -> Profile:
    value = note.value if isinstance(note.value, dict | str) else {}
    return Profile(agent=agent, profile=value, updated_at=note.updated_at)
