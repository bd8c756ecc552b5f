"""The tutorial as its reader follows it: a project of `layover init`, with the files of its chapters."""

import re
from pathlib import Path

from layover.project import FILE
from support.own_project import Installation
from support.pages import Block, Page

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"
CHAPTERS = ("first-agent", "approval", "memory", "web-page", "deployed")
_DEV_STAGE = re.compile(r"^\[stages\.dev\]\n.*?(?=^\[stages\.)", re.DOTALL | re.MULTILINE)


def chapter(name: str) -> Page:
    """Return the page of a chapter."""
    return Page(TUTORIAL / f"{name}.md")


def follow(installation: Installation, place: Path, last: str) -> Path:
    """Make the project and save what the chapters up to this one show. Return its folder."""
    installation.run(place, "init", "shop")
    for name in CHAPTERS[: CHAPTERS.index(last) + 1]:
        for block in chapter(name).blocks:
            if block.file is not None:
                _save(block, place / "shop" / block.file)
    return place / "shop"


def _save(block: Block, file: Path) -> None:
    """Do with a block what its chapter says: a line of `py` is added, the settings of a stage take the place
    of others, and anything else is the whole file."""
    if block.language == "py":
        text = file.read_text("utf-8") + block.source
    elif block.file == FILE:
        text, times = _DEV_STAGE.subn(lambda _: f"{block.source}\n", file.read_text("utf-8"))
        assert times == 1
    else:
        text = block.source
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, "utf-8")
