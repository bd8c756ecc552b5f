"""Results with files, as prompts have them: shown where their text names them, and named where they go."""

from typing import Any

import pytest

from layover.context.fit import shorten
from layover.context.left_out import UNREADABLE, file_key, text_key, without
from layover.context.previews import MIN_LENGTH, older_results, preview
from layover.context.result_files import with_notes
from layover.context.results import files_in_text, shown_files
from layover.context.tokens import message_tokens
from layover.context.withheld import for_models
from layover.values.message import FilePart, Message, Role, ToolResultPart
from layover.values.prompt import Prompt
from layover.values.tokens import FILE_TOKENS
from support.wire_messages import asks, message, user

RED = FilePart(file_id="file_1", name="red.png", mime_type="image/png")
BLUE = FilePart(file_id="file_2", name="blue.png", mime_type="image/png")
HERE = "[file: red.png, image/png, file_1]"
TEXT = f"Seen.\n\n{HERE}\n\nThat is all."


def shows(text: str = TEXT, *files: FilePart, **more: Any) -> Message:
    part = ToolResultPart(tool_call_id="a", tool_name="look", result=None)
    return message(Role.TOOL, part, *(files or (RED,)), model_output=text, **more)


def test_file_that_the_text_does_not_name_is_not_shown() -> None:
    assert shown_files(shows("[withheld]")) == ()
    assert shown_files(shows(TEXT, BLUE, RED)) == (RED,)
    assert files_in_text([FilePart()], "anything") == ()


def test_file_that_a_result_has_twice_is_shown_once() -> None:
    assert shown_files(shows(TEXT, RED, RED)) == (RED,)


def test_files_of_answers_and_of_custom_messages_are_shown_to_nobody() -> None:
    assert shown_files(message(Role.ASSISTANT, RED)) == ()
    assert shown_files(message(Role.CUSTOM, RED)) == ()
    assert shown_files(message(Role.USER, RED)) == (RED,)


def test_each_file_that_is_shown_counts_as_much_as_a_users() -> None:
    assert message_tokens(shows()) - message_tokens(shows("x" * len(TEXT))) == FILE_TOKENS


def test_note_stands_where_the_text_names_the_file_or_behind_the_text() -> None:
    noted = with_notes(shows(), {"file_1": "gone"})
    assert noted.model_output == f"Seen.\n\n{HERE}\ngone\n\nThat is all."
    assert shown_files(noted) == ()
    assert with_notes(shows('{"file_id":"file_1"}'), {"file_1": "gone"}).model_output == (
        '{"file_id":"file_1"}\ngone'
    )


def test_shortened_result_names_its_files_and_shows_none() -> None:
    short = shorten(shows())
    assert shown_files(short) == ()
    assert "[file: red.png, left out, as the prompt is too long]" in str(short.model_output)
    assert shown_files(shorten(shows(f"{'x' * 2_000}{HERE}{'x' * 2_000}"))) == ()


@pytest.mark.parametrize("text", [TEXT, f"{'x' * MIN_LENGTH}{HERE}"], ids=["short", "long"])
def test_preview_of_a_result_has_no_file_and_says_how_it_is_opened(text: str) -> None:
    seen = preview(shows(text))
    assert shown_files(seen) == ()
    assert "read_result shows it, id m" in str(seen.model_output) or "shows them" in str(
        seen.model_output
    )


def test_older_pictures_become_previews_as_long_results_do() -> None:
    pictures = [
        each
        for n in range(4)
        for each in (asks(f"c{n}"), shows().model_copy(update={"id": f"r{n}"}))
    ]
    assert older_results(pictures, 2.5 * FILE_TOKENS) == {"r0", "r1"}


def test_refused_result_shows_no_file() -> None:
    (withheld,) = for_models([shows(refused=True)])
    assert shown_files(withheld) == ()
    assert len(withheld.content) == 1


def test_file_that_a_model_cannot_read_is_named_in_its_place_for_this_model() -> None:
    prompt = Prompt(model="m", messages=(user("look"), asks("a"), shows()))
    (_, _, seen) = without(prompt, frozenset({file_key(RED)})).messages
    assert shown_files(seen) == ()
    assert f"{HERE}\n[file: red.png, {UNREADABLE}]" in str(seen.model_output)
    (_, _, left) = without(prompt, frozenset({text_key(shows())})).messages
    assert shown_files(left) == ()
