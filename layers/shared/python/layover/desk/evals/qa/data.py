"""Files of conversations with questions, in the formats of LoCoMo and LongMemEval. Their data is not
Layover's, and comes with no release."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from layover.clock import MICROSECOND
from layover.desk.failures import CommandFailed
from layover.values.base import Time, Value

_STEP = timedelta(seconds=1)
"""The time between two messages of a session, which has only one time."""
_SESSION = re.compile(r"session_(\d+)")
_ADVERSARIAL = 5
"""LoCoMo's category of questions that the conversation does not answer: there is nothing to compare with."""
_LOCOMO_TIME = "%I:%M %p on %d %B, %Y"
_LONGMEMEVAL_TIME = re.compile(r"(\d{4})/(\d\d)/(\d\d)(?: \(\w+\))? (\d\d):(\d\d)")


class DataInvalid(CommandFailed):
    """The file cannot be measured. The message says why."""


class Said(Value):
    """A message of a session."""

    role: Literal["user", "assistant"]
    text: str
    at: Time


class Question(Value):
    """A question, and the answer that is known. `kind`: the data's own name of its kind."""

    id: str
    text: str
    answer: str
    kind: str
    at: Time


class Conversation(Value):
    """Sessions, oldest first, and questions about them."""

    id: str
    sessions: tuple[tuple[Said, ...], ...]
    questions: tuple[Question, ...]


class Data(Value):
    """The content of a file. `sha256`: its first 16 hex digits."""

    form: Literal["locomo", "longmemeval"]
    sha256: str
    conversations: tuple[Conversation, ...]


def read_data(path: Path) -> Data:
    """Return the conversations of a file, in either format. Raises DataInvalid."""
    content, samples = _read_samples(path)
    is_locomo = "conversation" in samples[0]
    if not is_locomo and "haystack_sessions" not in samples[0]:
        raise DataInvalid(
            f"{path} is neither LoCoMo's (`conversation`) nor LongMemEval's (`haystack_sessions`)"
        )
    conversations: list[Conversation] = []
    for number, sample in enumerate(samples):
        try:
            conversations.append(
                _locomo(sample, number) if is_locomo else _longmemeval(sample, number)
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            what = f"{type(error).__name__}: {error}"
            raise DataInvalid(f"{path}: conversation {number + 1} is malformed ({what})") from error
    if not any(conversation.questions for conversation in conversations):
        raise DataInvalid(f"{path} has no question with an answer")
    ids = [question.id for each in conversations for question in each.questions]
    if len(set(ids)) < len(ids):
        raise DataInvalid(f"{path} has two questions of one id")
    return Data(
        form="locomo" if is_locomo else "longmemeval",
        sha256=hashlib.sha256(content).hexdigest()[:16],
        conversations=tuple(conversations),
    )


def _read_samples(path: Path) -> tuple[bytes, list[dict[str, Any]]]:
    """Return a file's content, and the conversations that it lists. Raises DataInvalid."""
    try:
        content = path.read_bytes()
        samples = json.loads(content)
    except OSError as error:
        raise DataInvalid(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DataInvalid(f"{path} is not JSON: {error}") from error
    samples = samples if isinstance(samples, list) else [samples]
    if not samples or not all(isinstance(sample, dict) for sample in samples):
        raise DataInvalid(f"{path} has no list of conversations")
    return content, samples


def _locomo(sample: Mapping[str, Any], number: int) -> Conversation:
    """Return a conversation of two people: the first of them is the user. Each message names its speaker."""
    talk, id = sample["conversation"], str(sample.get("sample_id", number + 1))
    places = sorted(int(m[1]) for name in talk if (m := _SESSION.fullmatch(name)))
    sessions = [
        (
            datetime.strptime(talk[f"session_{n}_date_time"], _LOCOMO_TIME).replace(tzinfo=UTC),
            [
                (
                    "user" if turn["speaker"] == talk["speaker_a"] else "assistant",
                    _locomo_text(turn),
                )
                for turn in talk[f"session_{n}"]
            ],
        )
        for n in places
        if talk[f"session_{n}"]
    ]
    timed = _timed(sessions)
    end = timed[-1][-1].at
    questions = [
        Question(
            id=f"{id}/{n}",
            text=str(qa["question"]),
            answer=str(qa["answer"]),
            kind=f"category {qa['category']}",
            at=end + _STEP,
        )
        for n, qa in enumerate(sample["qa"], 1)
        if qa["category"] != _ADVERSARIAL and qa.get("answer") is not None
    ]
    return Conversation(id=id, sessions=timed, questions=tuple(questions))


def _locomo_text(turn: Mapping[str, Any]) -> str:
    image = f" [shows a picture: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{image}"


def _longmemeval(sample: Mapping[str, Any], number: int) -> Conversation:
    id = str(sample.get("question_id", number + 1))
    dates, listed = sample["haystack_dates"], sample["haystack_sessions"]
    sessions = [
        (_longmemeval_time(date), [(turn["role"], str(turn["content"])) for turn in turns])
        for date, turns in zip(dates, listed, strict=True)
    ]
    question = Question(
        id=id,
        text=str(sample["question"]),
        answer=str(sample["answer"]),
        kind=str(sample["question_type"]),
        at=_longmemeval_time(sample["question_date"]),
    )
    return Conversation(
        id=id,
        sessions=_timed(sorted(sessions, key=lambda session: session[0])),
        questions=(question,),
    )


def _longmemeval_time(text: str) -> datetime:
    match = _LONGMEMEVAL_TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time as 2023/05/20 (Sat) 02:21")
    year, month, day, hour, minute = map(int, match.groups())
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def _timed(
    sessions: Sequence[tuple[datetime, Sequence[tuple[Any, str]]]],
) -> tuple[tuple[Said, ...], ...]:
    """Return the messages with times that go up, also where sessions overlap. Empty texts are left out."""
    last = datetime.min.replace(tzinfo=UTC)

    def timed(begins: datetime, turns: Sequence[tuple[Any, str]]) -> Iterator[Said]:
        nonlocal last
        at = begins
        for role, text in turns:
            if text.strip():
                last = max(at, last + MICROSECOND)
                yield Said(role=role, text=text, at=last)
                at = last + _STEP

    listed = (tuple(timed(begins, turns)) for begins, turns in sessions)
    return tuple(session for session in listed if session)
