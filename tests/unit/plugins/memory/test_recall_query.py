"""The query of recall, and messages as they are kept for it."""

from datetime import UTC, datetime

import pytest

from layover.plugins.memory.reads.semantic import query as recall
from layover.plugins.memory.text.index_words import head
from layover.values.message import Message, Role, TextPart

AT = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def heads(terms: list[str]) -> list[str]:
    return [head(term) for term in terms]


def message(text: str, role: Role = Role.USER) -> Message:
    return Message(id="m", thread_id="t", role=role, content=(TextPart(text=text),), created_at=AT)


@pytest.mark.parametrize("role", [Role.TOOL, Role.CUSTOM])
def test_only_users_and_assistants_are_kept(role: Role) -> None:
    assert recall.row_of(message("text", role), "support") is None


def test_a_message_without_text_is_not_kept() -> None:
    assert recall.row_of(message(" \n"), "support") is None


def test_a_text_is_kept_with_its_date_in_words() -> None:
    row = recall.row_of(message("Hello"), "support")
    assert row is not None
    assert (row.text, row.speaker) == ("8 May 2023 Hello", None)


def test_the_name_of_a_role_is_kept_with_what_it_says() -> None:
    row = recall.row_of(message("Hello"), "support", "Customer")
    assert row is not None
    assert (row.text, row.speaker) == ("8 May 2023 Customer: Hello", "Customer")


def test_a_name_before_the_text_wins_and_is_no_part_of_what_is_embedded() -> None:
    row = recall.row_of(message("Ann Lee: Hello"), "support", "Customer")
    assert row is not None
    assert (row.text, row.speaker) == ("8 May 2023 Ann Lee: Hello", "Ann Lee")
    assert recall.text_to_embed("Ann Lee: Hello") == "Hello"


@pytest.mark.parametrize(
    "text", ["https://a.example", "12:30 is fine", "Ann:", "a b c d: e", ": x"]
)
def test_not_every_colon_names_a_speaker(text: str) -> None:
    assert recall.speaker_of(text) is None
    assert recall.text_to_embed(text) == text


def test_common_words_are_cut_from_the_query() -> None:
    assert recall.vector_text("When did Ann go to Paris?", {"ann", "to"}) == "When did go Paris?"


def test_a_query_of_common_words_alone_stays_as_it_is() -> None:
    assert recall.vector_text("And Ann?", {"and", "ann"}) == "And Ann?"


def test_a_query_is_embedded_without_common_words_and_whole() -> None:
    texts = recall.vector_texts("When did Ann go to Paris?", {"ann", "to"})
    assert texts == ["When did go Paris?", "When did Ann go to Paris?"]


def test_a_query_without_common_words_is_embedded_once() -> None:
    assert recall.vector_texts("Where is it?", ()) == ["Where is it?"]


def test_both_ends_of_a_long_query_are_embedded_whole_too() -> None:
    texts = recall.vector_texts(f"{LOG} Why is Zanzibar slow?", {"why"})
    assert len(texts) == 2
    assert all(len(text) <= recall.MAX_QUERY + 1 for text in texts)


def test_vectors_of_a_query_rank_as_the_mean_of_their_cosines() -> None:
    assert recall.joint_vector([(1.0, 0.0), (0.0, 1.0)]) == pytest.approx((0.5**0.5, 0.5**0.5))


def test_a_query_has_the_vectors_that_its_embedder_made() -> None:
    assert recall.joint_vector([None, (0.0, 1.0)]) == (0.0, 1.0)
    assert recall.joint_vector([None, None]) is None
    assert recall.joint_vector([(1.0, 0.0), (-1.0, 0.0)]) is None


def test_a_query_has_each_word_once_and_not_too_many() -> None:
    assert heads(recall.query_words("tea or Tea, or teas")) == ["tea", "or"]
    many = " ".join(f"w{n}" for n in range(500))
    assert len(recall.query_words(many)) == recall.MAX_WORDS


LOG = " ".join(f"GET /items/{n} took {n} ms from host{n}" for n in range(2_000))


@pytest.mark.parametrize("text", [f"{LOG} Why is Zanzibar slow?", f"Why is Zanzibar slow? {LOG}"])
def test_a_query_has_the_words_of_both_ends_of_a_long_text(text: str) -> None:
    for found in (recall.query_words(text), recall.topic_words(text)):
        assert {"zanzibar", "slow"} <= set(heads(found))
        assert len(found) == len(set(found)) <= recall.MAX_WORDS
    assert "Why is Zanzibar slow?" in recall.vector_text(text, ())
    assert len(recall.vector_text(text, ())) <= recall.MAX_QUERY + 1


def test_a_query_has_the_rare_words_from_the_middle_of_a_long_text() -> None:
    half = LOG[: len(LOG) // 2]
    assert "zanzibar" in heads(recall.query_words(f"{half} Zanzibar {half}"))


def test_a_long_query_has_no_function_words() -> None:
    assert not {"is", "the", "why"} & set(heads(recall.query_words(f"{LOG} Why is the disk full?")))


def test_a_long_text_without_blanks_is_a_query_too() -> None:
    text = "".join(chr(0x4E00 + n) for n in range(9_000))
    assert len(recall.query_words(text)) == recall.MAX_WORDS
    assert len(recall.vector_text(text, ())) <= recall.MAX_QUERY + 1
    assert recall.query_words("\u3002" * 9_000) == []


@pytest.mark.parametrize(
    "vector", [[], [0.0, 0.0], [float("nan"), 1.0], [float("inf")], [1.0] * 5_000]
)
def test_a_vector_that_compares_with_nothing_is_not_used(vector: list[float]) -> None:
    assert recall.usable(vector) is None


def test_a_vector_is_kept_at_length_one() -> None:
    assert recall.usable([3e9, 4e9]) == pytest.approx((0.6, 0.8))
