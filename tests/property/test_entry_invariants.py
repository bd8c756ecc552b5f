"""Whatever a model proposes, what is kept was said and is kept once."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from layover import EpisodicMemory
from layover.plugins.memory.learns.rules import (
    Candidate,
    check_entries,
    hash_of,
    select,
)
from layover.plugins.memory.learns.text.characters import plain_characters
from layover.plugins.memory.learns.text.evidence import anchors, normalise
from layover.plugins.memory.learns.text.forms import Form
from layover.plugins.memory.learns.text.reading import plain
from layover.plugins.memory.reads.episodic.rendering import entry_lines, memory_block
from layover.values.memory.entry import MemoryEntry
from layover.values.message import Message, Role, TextPart
from support.examples import examples

AT = datetime(2026, 1, 1, tzinfo=UTC)
SOURCES = ("user_assertion", "user_accepted_assistant_proposal", "verified_assistant_finding")
WORDS = st.sampled_from(
    [
        "the",
        "import",
        "of",
        "shop-7",
        "fails",
        "E1102",
        "42",
        "not",
        "disk",
        "<b>",
        "a_b",
        "x.y",
        "缓存",
    ]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
ANYTHING = st.one_of(TEXTS, st.text(max_size=60))


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """Draw a conversation: texts with their speakers."""
    texts = draw(st.lists(st.tuples(st.sampled_from(Role), ANYTHING), min_size=1, max_size=5))
    return [
        Message(id=f"m{n}", thread_id="t", role=role, content=(TextPart(text=text),), created_at=AT)
        for n, (role, text) in enumerate(texts)
    ]


@st.composite
def proposals(draw: st.DrawFn, said: list[Message]) -> dict[str, Any]:
    """Anything, often a piece of what was said."""
    text = draw(st.sampled_from(said)).text
    start = draw(st.integers(0, len(text)))
    piece = text[start : draw(st.integers(start, len(text)))]
    return {
        "content": draw(st.one_of(ANYTHING, st.just(piece))),
        "source": draw(st.sampled_from([*SOURCES, "other"])),
        "evidence": draw(st.one_of(ANYTHING, st.just(piece), st.just(text))),
    }


@examples(300)
@given(st.data(), turns(), st.booleans(), st.integers(0, 5), st.integers(5, 60))
def test_what_is_kept_was_said_by_who_may_say_it(
    data: st.DataObject, said: list[Message], trusted: bool, per_turn: int, longest: int
) -> None:
    items = data.draw(st.lists(proposals(said), max_size=8))
    limits = EpisodicMemory(per_turn=per_turn, max_length=longest, assistant_evidence="label")
    found = check_entries(json.dumps({"entries": items}), said, limits, trusted=trusted)
    assert len(found.candidates) <= per_turn
    assert len(found.candidates) + found.refusals.total() == len(items)
    assert len({c.hash for c in found.candidates}) == len(found.candidates)
    by_id = {m.id: m for m in said}
    spoken = normalise(" \x00 ".join(plain_characters(m.text) for m in said)).casefold()
    for kept in found.candidates:
        witness = by_id[kept.message_id]
        assert witness.role in (Role.USER, Role.ASSISTANT)
        of_user = ("user_assertion", "quoted_text")
        assert kept.source in (of_user if witness.role is Role.USER else SOURCES[2:])
        vouched = {"user_assertion": True, "quoted_text": False}
        assert kept.verified == vouched.get(kept.source, trusted)
        assert Form(kept.evidence).bare in Form(plain(witness.text.strip(), 8_000)).text
        assert 0 < len(kept.content) <= longest
        assert kept.hash == hash_of(kept.content)
        if len(kept.content) < longest:
            assert all(a.casefold() in spoken for a in anchors(kept.content))


@examples(200)
@given(st.text(max_size=200))
def test_no_answer_breaks_the_reading_of_it(answer: str) -> None:
    message = Message(
        id="m", thread_id="t", role=Role.USER, content=(TextPart(text="hello"),), created_at=AT
    )
    assert check_entries(answer, [message], EpisodicMemory(), trusted=True).candidates == []


NUMBERS = st.lists(st.integers(0, 5), max_size=3).map(tuple)


def kept_entry(id: str, content: str, verified: bool) -> MemoryEntry:
    return MemoryEntry(
        id=id,
        agent="a",
        content=content,
        source="user_assertion",
        evidence=content,
        verified=verified,
        created_at=AT,
        thread_id="t",
    )


@examples(300)
@given(
    st.lists(st.tuples(TEXTS, st.booleans()), max_size=4),
    st.lists(st.tuples(TEXTS, st.booleans(), NUMBERS, NUMBERS), max_size=4),
    st.sets(st.integers(0, 3)),
)
def test_an_entry_goes_only_if_the_extractor_names_it_and_it_still_stands(
    stored: list[tuple[str, bool]],
    proposed: list[tuple[str, bool, tuple[int, ...], tuple[int, ...]]],
    gone: set[int],
) -> None:
    known = [kept_entry(str(n), text, verified) for n, (text, verified) in enumerate(stored, 1)]
    standing = {e.id: e for n, e in enumerate(known) if n not in gone}
    made = [
        Candidate(text, "user_assertion", text, "m", verified, str(n), "", replaces, same)
        for n, (text, verified, replaces, same) in enumerate(proposed)
    ]
    kept = {each.candidate.hash: each for each in select(made, known, standing, AT)}
    for one in made:
        named = {str(n) for n in (*one.replaces, *one.same)} & standing.keys()
        if one.hash not in kept:
            assert named & {str(n) for n in one.same}
            continue
        supersedes = set(kept[one.hash].supersedes)
        assert supersedes <= named
        assert one.verified or not any(standing[id].verified for id in supersedes)


@examples(200)
@given(st.lists(st.text(min_size=1, max_size=80), max_size=5))
def test_a_block_has_a_line_an_entry_and_its_own_tags_alone(contents: list[str]) -> None:
    entries = [
        MemoryEntry(
            id=str(n),
            agent="a",
            content=content,
            source="user_assertion",
            evidence="e",
            created_at=AT,
            thread_id="t",
        )
        for n, content in enumerate(contents)
    ]
    block = memory_block(list(entry_lines(entries, AT).values()))
    if not contents:
        assert block == ""
        return
    assert len(block.splitlines()) == len(contents) + 5
    assert block.count("<") == block.count(">") == 6
