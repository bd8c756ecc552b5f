"""docs/deploy/runbook.md as whoever is on call reads it: incidents, what they show, and commands."""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from support.pages import Page, blocks_of, spans_of

PATH = Path(__file__).parents[2] / "docs" / "deploy" / "runbook.md"
BEGIN = "begin"
"""What comes before the first incident."""
PARTS = ("**You see**", "**Type**", "**It is over**")
"""What each incident says, in this order."""
PLACES = re.compile(r"\b(RUN_ID|SUB|POOL|USER|WHY)\b")
_TYPED = re.compile(r"(layover|aws) [a-z-]+( |$)")
_INCIDENT = re.compile(r'^<a id="([\w-]+)"></a>\n(?=## \d)', re.MULTILINE)


@dataclass
class Incident:
    """A section of the page. `unplayed`: its commands that nobody has typed yet."""

    name: str
    text: str
    unplayed: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.unplayed = [*self.commands]

    @property
    def commands(self) -> list[str]:
        """Its commands, those of sentences last, each once."""
        blocks = [block for block in blocks_of(self.text, PATH) if block.is_shell]
        lines = [line for block in blocks for line in block.source.splitlines()]
        return [*dict.fromkeys([*lines, *filter(_TYPED.match, spans_of(self.text))])]

    def word(self, text: str) -> str:
        """Return words that the section has to have."""
        assert text in " ".join(self.text.split()), f"{self.name} does not say {text!r}"
        return text

    def typed(self, beginning: str, **places: str) -> list[str]:
        """Return the words of the next command that begins so, with its places filled. Fails if the section
        has none."""
        fitting = [each for each in self.commands if each.startswith(beginning)]
        assert fitting, f"{self.name} has no command {beginning!r}"
        line = next((each for each in self.unplayed if each in fitting), fitting[0])
        if line in self.unplayed:
            self.unplayed.remove(line)
        return shlex.split(PLACES.sub(lambda found: shlex.quote(places[found[0]]), line))


def read_incidents() -> dict[str, Incident]:
    """Return the incidents by their anchors, and what comes before them as `BEGIN`."""
    begin, *rest = _INCIDENT.split(Page(PATH).text)
    texts = {BEGIN: begin, **dict(zip(rest[::2], rest[1::2], strict=True))}
    return {name: Incident(name, text) for name, text in texts.items()}
