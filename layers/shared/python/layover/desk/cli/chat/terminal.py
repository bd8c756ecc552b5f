"""Lines that a person types, and the display of answers: Markdown on a screen, plain text in a pipe."""

import contextlib
import sys
from pathlib import Path
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from layover.values.text import reveal

_FENCE = "```"
_MAX_HISTORY = 1000


class Terminal(Protocol):
    """Reads and shows. `interactive`: a person is there to answer."""

    interactive: bool

    def read(self, prompt: str, text: str = "") -> str | None:
        """The next line, which may begin as `text`; None at the end of input. Raises
        KeyboardInterrupt."""
        ...

    def write(self, text: str) -> None:
        """The next piece of an answer."""
        ...

    def end(self) -> None:
        """The answer is complete, or something else follows."""
        ...

    def note(self, text: str, style: str = "dim") -> None:
        """A line that is not part of an answer."""
        ...


class Silence:
    """A terminal that shows nothing."""

    interactive = False

    def read(self, prompt: str, text: str = "") -> str | None:
        """As `Terminal.read`."""

    def write(self, text: str) -> None:
        """As `Terminal.write`."""

    def end(self) -> None:
        """As `Terminal.end`."""

    def note(self, text: str, style: str = "dim") -> None:
        """As `Terminal.note`."""


class ScreenTerminal:
    """The terminal that the command was started in, or the pipes in its place: `target` then gets only
    answers, and `notes` gets the rest. No text that is shown moves the cursor."""

    def __init__(
        self, source: TextIO, target: TextIO, notes: TextIO, history: Path | None = None
    ) -> None:
        self.interactive = source.isatty()
        self._source = source
        self._console = Console(file=target, highlight=False)
        self._is_screen = self._console.is_terminal
        self._notes = self._console if self._is_screen else Console(file=notes, highlight=False)
        self._history = history if self.interactive else None
        self._block = ""
        """The incomplete end of the answer so far."""
        self._live: Live | None = None
        self._at_line_start = True
        self._load_history()

    def read(self, prompt: str, text: str = "") -> str | None:
        """As `Terminal.read`; a line from a pipe is shown after its prompt."""
        self.end()
        prompt = reveal(prompt)
        if self.interactive and self._is_screen:
            return self._read_line(prompt, reveal(text))
        if self.interactive:
            self._notes.print(Text(prompt), end="", soft_wrap=True)
        line = self._source.readline()
        if not self.interactive and prompt.strip() != ">":
            self.note(f"{prompt}{line.rstrip()}", "")
        return line.rstrip("\r\n") if line else None

    def write(self, text: str) -> None:
        """As `Terminal.write`. On a screen each paragraph is rendered as soon as it is complete."""
        text = reveal(text)
        if not self._is_screen:
            self._console.file.write(text)
            self._console.file.flush()
            self._at_line_start = text.endswith("\n") if text else self._at_line_start
            return
        complete, self._block = split_blocks(self._block + text)
        if complete.strip():
            self._stop()
            self._console.print(Markdown(complete))
        if self._block.strip():
            self._show(self._block)

    def end(self) -> None:
        """As `Terminal.end`."""
        if self._is_screen:
            self._stop()
            if self._block.strip():
                self._console.print(Markdown(self._block))
        elif not self._at_line_start:
            self._console.print()
        self._block, self._at_line_start = "", True

    def note(self, text: str, style: str = "dim") -> None:
        """As `Terminal.note`."""
        self.end()
        self._notes.print(Text(reveal(text), style=style), soft_wrap=True)

    def _show(self, block: str) -> None:
        if self._live is None:
            self._live = Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(Markdown(block), refresh=True)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _read_line(self, prompt: str, text: str) -> str | None:
        with contextlib.suppress(ImportError):  # not on Windows
            import readline

            readline.set_startup_hook((lambda: readline.insert_text(text)) if text else None)
        try:
            line = input(prompt)
        except EOFError:
            print()
            return None
        self._save_history()
        return line

    def _load_history(self) -> None:
        if self._history is not None:
            with contextlib.suppress(ImportError, OSError):
                import readline

                readline.set_history_length(_MAX_HISTORY)
                readline.read_history_file(self._history)

    def _save_history(self) -> None:
        """Readable only by its owner, because it holds a user's words."""
        if self._history is not None:
            with contextlib.suppress(ImportError, OSError):
                import readline

                self._history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._history.touch(mode=0o600)
                readline.write_history_file(self._history)


def split_blocks(text: str) -> tuple[str, str]:
    """The paragraphs of Markdown that are complete, and the rest. A block of code is one paragraph."""
    end = text.rfind("\n\n")
    while end >= 0 and text.count(_FENCE, 0, end) % 2:
        end = text.rfind("\n\n", 0, end)
    return ("", text) if end < 0 else (text[: end + 2], text[end + 2 :])


def screen(history: Path) -> ScreenTerminal:
    """The terminal of this process."""
    return ScreenTerminal(sys.stdin, sys.stdout, sys.stderr, history)
