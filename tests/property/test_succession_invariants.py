"""Whatever is said of a thing ends nothing that was said of another, and saying it again changes nothing."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from layover.plugins.memory.episodic.rules import Candidate, hash_of, select
from layover.plugins.memory.episodic.succession import follows, leaves_standing
from layover.values.memory.entry import FoundEntry, SimilarEntry
from support.examples import examples

AT = datetime(2026, 11, 20, 9, tzinfo=UTC)
FRAMES = {
    "Order {x} is {v}.": ("in preparation", "shipped", "delivered", "at customs"),
    "Server {x} is {v}.": ("running", "stopped", "broken"),
    "The pump in hall {x} is {v} now.": ("open", "closed", "locked"),
    "The meeting about {x} is on {v}.": ("Monday", "Tuesday", "3 June"),
    "The fee for {x} is {v}.": ("40 euros", "55 euros", "40 dollars"),
    "Der Container {x} steht in {v}.": ("Bonn", "Kiel", "Jena"),
    "The contact for {x} is {v}.": ("Anna", "Ben", "Ms Roth"),
    "El pedido {x} está {v}.": ("enviado", "entregado"),
    "订单{x}在{v}。": ("上海", "北京"),
}
THINGS = ("A-1003", "A-1004", "B-2210")


@st.composite
def facts(draw: st.DrawFn, thing: str | None = None) -> str:
    """A fact about one of some things."""
    frame = draw(st.sampled_from(sorted(FRAMES)))
    x = thing or draw(st.sampled_from(THINGS))
    return frame.format(x=x, v=draw(st.sampled_from(FRAMES[frame])))


def stored_entry(content: str, days: int = 1) -> FoundEntry:
    """A stored entry, as many days old."""
    return FoundEntry(
        id=content,
        agent="a",
        content=content,
        source="user_assertion",
        evidence=content,
        created_at=AT - timedelta(days=days),
        thread_id="t",
        message_id="m",
    )


def standing(said: list[str], *, has_vector: bool) -> set[str]:
    """All that stands after facts were said, one after the other."""
    stored: list[FoundEntry] = []
    for place, content in enumerate(said):
        candidate = Candidate(
            content, "user_assertion", content, "m", verified=True, hash=hash_of(content)
        )
        near = [
            SimilarEntry(
                place=0, verified=True, cosine=0.95, **e.model_dump(include=SIMILAR_FIELDS)
            )
            for e in stored
        ]
        kept = select(
            [candidate],
            [(1.0, 0.0) if has_vector else None],
            near if has_vector else [],
            0.86,
            AT + timedelta(minutes=place),
            stored,
        )
        gone = {id for each in kept for id in each.supersedes}
        stored = [e for e in stored if e.id not in gone]
        stored += [stored_entry(content) for _ in kept]
    return {e.content for e in stored}


SIMILAR_FIELDS = {"id", "content", "evidence", "created_at"}


@examples(150)
@given(st.data(), st.booleans())
def test_a_fact_ends_none_of_another_thing(data: st.DataObject, has_vector: bool) -> None:
    one, other = data.draw(st.permutations(THINGS))[:2]
    old, new = data.draw(facts(one)), data.draw(facts(other))
    assert not follows(new, old)
    assert standing([old, new], has_vector=has_vector) == {old, new}


@examples(150)
@given(st.data(), st.booleans())
def test_the_order_of_facts_about_several_things_does_not_matter(
    data: st.DataObject, has_vector: bool
) -> None:
    said = [data.draw(facts(thing)) for thing in THINGS]
    other = data.draw(st.permutations(said))
    assert (
        standing(said, has_vector=has_vector) == standing(other, has_vector=has_vector) == set(said)
    )


@examples(150)
@given(st.lists(facts(), min_size=1, max_size=5), st.booleans())
def test_what_was_said_last_stands_and_saying_it_again_changes_nothing(
    said: list[str], has_vector: bool
) -> None:
    stands = standing(said, has_vector=has_vector)
    assert said[-1] in stands
    assert standing([*said, said[-1]], has_vector=has_vector) == stands


@examples(300)
@given(facts(), facts())
def test_no_fact_follows_itself_or_one_that_it_leaves_standing(new: str, old: str) -> None:
    assert not follows(new, new)
    assert not (follows(new, old) and leaves_standing(new, old))


@examples(200)
@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_is_compared(new: str, old: str) -> None:
    assert follows(new, old) in (True, False)
