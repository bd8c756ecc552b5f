"""Output of a terminal: Markdown on a screen, and the bare text in a pipe."""

import io

import pytest

from layover.cli.chat.terminal import ScreenTerminal, split_blocks


class Screen(io.StringIO):
    """A file that says that it is a terminal."""

    def isatty(self) -> bool:
        """As a terminal's."""
        return True


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("one line", ""),
        ("one\n\ntwo", "one\n\n"),
        ("one\n\n```\ncode\n\nmore", "one\n\n"),
        ("```\ncode\n\nmore\n```\n\nafter", "```\ncode\n\nmore\n```\n\n"),
    ],
)
def test_paragraph_is_complete_where_no_code_is_open(text: str, complete: str) -> None:
    assert split_blocks(text) == (complete, text.removeprefix(complete))


def test_pipe_gets_the_text_as_it_came() -> None:
    target = io.StringIO()
    terminal = ScreenTerminal(io.StringIO("hi\n"), target)
    assert terminal.read("> ") == "hi"
    terminal.write("**bo")
    assert target.getvalue() == "**bo"
    terminal.write("ld**")
    terminal.note("3 tokens")
    assert target.getvalue() == "**bold**\n3 tokens\n"
    assert terminal.read("> ") is None


def test_question_of_a_pipe_is_shown_with_its_answer() -> None:
    target = io.StringIO()
    terminal = ScreenTerminal(io.StringIO("y\n"), target)
    terminal.write("I will.")
    assert terminal.read("approve refund()? [y/N/edit] ") == "y"
    assert target.getvalue() == "I will.\napprove refund()? [y/N/edit] y\n"


def test_screen_gets_markdown_set_and_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    target = Screen()
    terminal = ScreenTerminal(io.StringIO(), target)
    terminal.write("**bo")
    terminal.write("ld**\n\n- a po")
    terminal.write("int")
    terminal.end()
    assert "\x1b[1mbold\x1b[0m" in target.getvalue()
    assert "**bold**" not in target.getvalue()
    assert "•" in target.getvalue()


def test_markup_of_a_console_is_text() -> None:
    target = io.StringIO()
    ScreenTerminal(io.StringIO(), target).note("[red]order[/red]")
    assert target.getvalue() == "[red]order[/red]\n"
