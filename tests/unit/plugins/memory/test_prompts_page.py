"""Every prompt has its row in docs/prompts.md, with the digest of its file."""

import re
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import layover.plugins.memory

PAGE = Path(__file__).parents[4] / "docs" / "prompts.md"
_ROW = re.compile(r"^\| `(\w+)` \| `([0-9a-f]{8})` \| \S.*\|$", re.MULTILINE)


def test_every_prompt_has_its_row_and_every_digest_agrees() -> None:
    """A failure means that a prompt was edited. Measure it, say on the page what changed and why, and put the
    new digest there."""
    folder = files(layover.plugins.memory).joinpath("prompts")
    digests = {
        file.name.removesuffix(".md"): sha256(file.read_bytes()).hexdigest()[:8]
        for file in folder.iterdir()
        if file.name.endswith(".md")
    }
    rows = _ROW.findall(PAGE.read_text("utf-8"))
    assert len(rows) == len({name for name, _ in rows})
    assert dict(rows) == digests
