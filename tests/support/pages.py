"""Pages of documentation, and the Python in them."""

import re
import textwrap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType

_FENCED = re.compile(
    r'^(?P<indent> *)```(?P<language>\w+)(?: title="(?P<file>[^"\n]+)")?\n(?P<source>.*?)^(?P=indent)```',
    re.DOTALL | re.MULTILINE,
)

_SPAN = re.compile(r"`([^`]+)`")
_SHELLS = ("sh", "bash", "console", "shell", "zsh")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. `line`: the number of its first line in the page. `file`: the path, relative
    to the project, of the file that a reader saves it as; None if it is not a file."""

    page: Path
    line: int
    language: str
    source: str
    file: str | None = None

    @property
    def is_shell(self) -> bool:
        """Whether it is for a shell."""
        return self.language in _SHELLS

    @property
    def compiled(self) -> CodeType:
        """Its code; a traceback names the page and the page's own line."""
        return compile("\n" * (self.line - 1) + self.source, str(self.page), "exec")


def blocks_of(text: str, page: Path) -> list[Block]:
    """Return the fenced blocks of a text that name a language, in order."""
    return [
        Block(
            page,
            text.count("\n", 0, m.start()) + 2,
            m["language"],
            textwrap.dedent(m["source"]) if m["indent"] else m["source"],
            m["file"],
        )
        for m in _FENCED.finditer(text)
    ]


def spans_of(text: str) -> list[str]:
    """Return the code within sentences of a text, in order, each on one line."""
    return [" ".join(each.split()) for each in _SPAN.findall(_FENCED.sub("", text))]


@dataclass(frozen=True)
class Page:
    """A Markdown file."""

    path: Path

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self.path.read_text("utf-8")

    @property
    def blocks(self) -> list[Block]:
        """Fenced blocks that name a language, in order."""
        return blocks_of(self.text, self.path)

    @property
    def spans(self) -> list[str]:
        """Code within sentences, in order, each on one line."""
        return spans_of(self.text)

    @property
    def python(self) -> list[Block]:
        """Blocks of Python, in order."""
        return [block for block in self.blocks if block.language == "python"]

    @property
    def shell(self) -> list[Block]:
        """Blocks for a shell, in order."""
        return [block for block in self.blocks if block.is_shell]
