"""Output of a terminal: Markdown on a screen, and the bare text in a pipe."""

import io

import pytest

from layover.desk.cli.chat.terminal import ScreenTerminal, split_blocks


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


def piped(lines: str = "") -> tuple[ScreenTerminal, io.StringIO, io.StringIO]:
    """A terminal that is three pipes, and those of the answers and of the notes."""
    target, notes = io.StringIO(), io.StringIO()
    return ScreenTerminal(io.StringIO(lines), target, notes), target, notes


def test_pipe_gets_the_answer_and_the_notes_go_elsewhere() -> None:
    terminal, target, notes = piped("hi\n")
    assert terminal.read("> ") == "hi"
    terminal.note("-> look_up()")
    terminal.write("**bo")
    assert target.getvalue() == "**bo"
    terminal.write("ld**")
    terminal.note("3 tokens")
    assert target.getvalue() == "**bold**\n"
    assert notes.getvalue() == "-> look_up()\n3 tokens\n"
    assert terminal.read("> ") is None


def test_question_of_a_pipe_is_a_note_with_its_answer() -> None:
    terminal, target, notes = piped("y\n")
    terminal.write("I will.")
    assert terminal.read("approve refund()? [y/N/edit] ") == "y"
    assert target.getvalue() == "I will.\n"
    assert notes.getvalue() == "approve refund()? [y/N/edit] y\n"


def test_screen_gets_answers_and_notes_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    target, notes = Screen(), Screen()
    terminal = ScreenTerminal(io.StringIO("y\n"), target, notes)
    terminal.note("-> look_up()")
    terminal.write("I will.")
    terminal.read("approve refund()? ")
    shown = [line.strip() for line in target.getvalue().splitlines() if line.strip()]
    assert shown == ["-> look_up()", "I will.", "approve refund()? y"]
    assert notes.getvalue() == ""


def test_person_who_pipes_the_answers_is_asked_beside_them() -> None:
    target, notes = io.StringIO(), Screen()
    terminal = ScreenTerminal(Screen("hi\n"), target, notes)
    assert terminal.interactive
    assert terminal.read("> ") == "hi"
    assert terminal.read("> ") is None
    assert target.getvalue() == ""
    assert notes.getvalue().startswith("> ")


ERASE = "\x1b[1A\x1b[2K\r\x9b2J\x07\x7f"
"""What takes a line back on a terminal that obeys it."""


@pytest.mark.parametrize("kind", [Screen, io.StringIO], ids=["screen", "pipe"])
def test_text_of_others_moves_no_cursor(
    kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    target = kind()
    terminal = ScreenTerminal(io.StringIO("y\n"), target, target)
    terminal.write(f"paid\t1\n{ERASE}")
    terminal.write("\x1b")
    terminal.write("[8m or not\n\n")
    terminal.note(f"denied by bob: {ERASE}")
    terminal.read(f"approve refund(to='{ERASE}')? ")
    assert [c for c in target.getvalue() if c != "\n" and not c.isprintable()] in ([], ["\t"])
    assert "denied by bob: ‹U+001B›[1A‹U+001B›[2K" in target.getvalue()
    assert "‹U+009B›2J‹U+0007›‹U+007F›')? y" in target.getvalue()


def test_screen_gets_markdown_set_and_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    target = Screen()
    terminal = ScreenTerminal(io.StringIO(), target, io.StringIO())
    terminal.write("**bo")
    terminal.write("ld**\n\n- a po")
    terminal.write("int")
    terminal.end()
    assert "\x1b[1mbold\x1b[0m" in target.getvalue()
    assert "**bold**" not in target.getvalue()
    assert "•" in target.getvalue()


def test_markup_of_a_console_is_text() -> None:
    terminal, _, notes = piped()
    terminal.note("[red]order[/red]")
    assert notes.getvalue() == "[red]order[/red]\n"
