"""Numbers for what was measured: of a task's prompt, and of the code that reads its answers.

A figure without them says nothing once a prompt has changed."""

import json
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import layover.plugins.memory
from layover import EpisodicMemory
from layover.plugins.memory.learns import facts, requests, rules
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Prompt

DIGITS = 8
_MODEL = "any"
"""A name that says nothing: the same prompt has one number for all models."""
_SPECIMEN = Message(
    id="specimen",
    thread_id="",
    role=Role.USER,
    content=(TextPart(text="specimen"),),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


@cache
def memory_number(task: str) -> str:
    """Return the number of what a task of memory sends: 8 hex digits of its texts, its schema and its
    limits."""
    of_task = requests.TASKS[task]
    prompt = requests.memory_prompt(task, _MODEL, _SPECIMEN)
    return number([*parts_of(prompt), of_task.tokens, of_task.most])


@cache
def lesson_number() -> str:
    """Return the number of what one request for entries, a profile and session notes sends."""
    turn = facts.turn_of([_SPECIMEN])
    entries = rules.part(_MODEL, [_SPECIMEN], None, [], EpisodicMemory())
    notes = [facts.part(task, _MODEL, turn, {}, _SPECIMEN) for task in ("profile", "session")]
    return number(parts_of(requests.joint_prompt([entries, *notes])))


@cache
def pairs_number() -> str:
    """Return the number of what a request for entries sends where one is known."""
    return number(
        parts_of(rules.request(_MODEL, [_SPECIMEN], None, ["specimen"], EpisodicMemory()))
    )


def parts_of(prompt: Prompt) -> list[Any]:
    """Return what a request says, without the model and without ids and times."""
    return [
        prompt.system,
        [[m.role.value, m.text] for m in prompt.messages],
        [tool.model_dump(mode="json") for tool in prompt.tools],
        prompt.output.json_schema if prompt.output else None,
        prompt.settings.model_dump(mode="json", exclude_none=True),
    ]


def number(value: Any) -> str:
    """Return 8 hex digits that change with the value, which is JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:DIGITS]


@cache
def code_number() -> str:
    """Return the number of the code of memory and of the loop, which decide what becomes of an answer."""
    layer = Path(layover.plugins.memory.__file__).parents[1]
    files = sorted(f for name in ("memory", "engine") for f in (layer / name).rglob("*.py"))
    return number([[f.relative_to(layer).as_posix(), f.read_text("utf-8")] for f in files])
