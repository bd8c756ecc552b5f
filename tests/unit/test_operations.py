"""docs/deploy/operations.md has every alarm of the stack, with its words and what to do."""

import re
import tomllib
from pathlib import Path

from layover.desk.cdk.settings import Settings
from support.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "deploy" / "operations.md").read_text("utf-8")


def alarms() -> dict[str, str]:
    """The stack's alarms that send mail, with what each says."""
    source = (ROOT / "layers/shared/python/layover/desk/cdk/constructs/observability.py").read_text(
        "utf-8"
    )
    made = dict(re.findall(r'self\._alarm\("(\w+)", .*, "([^"]+)"\)', source))
    [silent] = re.findall(r'self,\s+"(\w+)",\s+alarm_description=f"\{[^}]*\}: ([^"]+)"', source)
    return {**made, silent[0]: silent[1]}


def test_every_alarm_is_on_the_page_with_its_words() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \| \[", PAGE, re.MULTILINE))
    assert rows == alarms()
    assert len(rows) == 10


def test_settings_that_the_tutorial_shows_are_known() -> None:
    page = Page(DOCS / "tutorial" / "deployed.md")
    [shown] = [block.source for block in page.blocks if block.language == "toml"]
    settings = Settings(**tomllib.loads(shown)["stages"]["dev"])
    assert settings.approval_alarm.days == 2
