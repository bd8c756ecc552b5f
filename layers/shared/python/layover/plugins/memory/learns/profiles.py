"""Profiles, which their owners read and change, and to which turns add."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from layover.declare.agent import Agent
from layover.errors import TooLarge, UnknownAgent
from layover.plugins.memory.learns import facts
from layover.plugins.memory.learns.joint import PartAnswer
from layover.plugins.memory.learns.lesson import Lesson
from layover.plugins.memory.learns.requests import Part, memory_model
from layover.runtime import Runtime
from layover.values.base import Json, Time, Value
from layover.values.note import Note, profile_key
from layover.values.text import json_size, sanitise

MAX_PROFILE = 64 * 1024
"""Bytes of JSON."""


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


class FactLesson:
    """A turn's lesson for the profile and for session memory: what is asked, and what becomes of the
    answers."""

    def __init__(self, runtime: Runtime, agent: Agent, lesson: Lesson) -> None:
        self._runtime = runtime
        self._agent = agent
        self._meta = lesson.snapshot.meta
        self._turn = facts.turn_of(lesson.dialogue)
        self._is_idle = lesson.teaches_nothing
        self._profile: Any = None
        self._session: dict[str, Any] = {}

    async def parts(self) -> list[Part]:
        """Return what is asked of the turn: for what the agent remembers, if the user says anything of their
        own. Raises RetryableError (the database)."""
        memory, runtime, meta = self._agent.memory, self._runtime, self._meta
        if self._is_idle:
            return []
        parts: list[Part] = []
        if memory.profile:
            (note,) = await runtime.memory.read_notes(meta.owner, [profile_key(self._agent.name)])
            self._profile = note.value
            parts.append(self._part("profile", note.value))
        if memory.session:
            state = await runtime.memory.read_state(meta.owner, meta.thread_id)
            self._session = facts.number_entries(state.session)
            parts.append(self._part("session", self._session))
        return parts

    def read(self, answers: Mapping[str, PartAnswer]) -> ExtractedFacts:
        """Return the additions in the answers; a part without a useful answer has none."""
        profile, session = answers.get("profile"), answers.get("session")
        return ExtractedFacts(
            facts.profile_change(profile.text, self._turn, self._profile) if profile else {},
            facts.session_facts(session.text, self._turn, self._session) if session else [],
        )

    def _part(self, task: str, current: Any) -> Part:
        runtime = self._runtime
        model = memory_model(runtime, self._agent, runtime.settings.extractor_model)
        return facts.part(task, model, self._turn, current, self._meta.input)


def _check_agent(runtime: Runtime, agent: str) -> None:
    if agent not in runtime.agents():
        raise UnknownAgent(agent, runtime.agents(), "query")


def _view(agent: str, note: Note) -> Profile:
    value = note.value if isinstance(note.value, dict | str) else {}
    return Profile(agent=agent, profile=value, updated_at=note.updated_at)
