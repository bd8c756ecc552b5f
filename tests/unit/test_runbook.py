"""docs/deploy/runbook.md: each incident says what is seen, what is typed and when it is over, and its
commands are ones that exist. tests/e2e/test_runbook.py plays them."""

import shlex
from typing import Any

import pytest
import typer.main

from layover.desk.cdk.settings import Settings
from layover.desk.cli import main as cli
from support.aws.command_line import read_line
from support.runbook import BEGIN, PARTS, PATH, PLACES, Incident, read_incidents

INCIDENTS = read_incidents()
COMMANDS = [line for each in INCIDENTS.values() for line in each.commands]


def test_command_that_the_page_does_not_have_is_not_typed() -> None:
    incident = Incident("a", "```sh\nlayover ops start\n```\n")
    with pytest.raises(AssertionError, match="a has no command 'layover ops stop'"):
        incident.typed("layover ops stop")
    with pytest.raises(AssertionError, match="a does not say 'Sunday'"):
        incident.word("Sunday")


def test_commands_are_read_from_blocks_and_sentences_each_once() -> None:
    text = "```sh\nlayover x RUN_ID\naws y z\n```\nuntil `layover x\nRUN_ID` ends, `layover/use` or `w`"
    incident = Incident("a", text)
    assert incident.commands == ["layover x RUN_ID", "aws y z"]
    assert incident.typed("layover", RUN_ID="run_1") == ["layover", "x", "run_1"]
    assert incident.unplayed == ["aws y z"]


def test_there_are_ten_incidents_in_their_order() -> None:
    titles = [each.text.partition(". ")[0] for name, each in INCIDENTS.items() if name != BEGIN]
    assert titles == [f"## {number}" for number in range(1, 11)]


@pytest.mark.parametrize("name", [name for name in INCIDENTS if name != BEGIN])
def test_incident_says_what_is_seen_what_is_typed_and_when_it_is_over(name: str) -> None:
    text = INCIDENTS[name].text
    places = [text.find(part) for part in PARTS]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("line", COMMANDS)
def test_command_is_one_that_the_program_takes(line: str) -> None:
    program, *words = shlex.split(PLACES.sub("x", line))
    if program == "aws":
        read_line(words)
        return
    command: Any = typer.main.get_command(cli.app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(line, words)


def test_names_of_a_stage_are_those_that_it_has() -> None:
    settings = Settings(stage="prod")
    text = PATH.read_text("utf-8")
    assert settings.key_parameter in text
    assert f"`{settings.prefix}-notify-dead`" in text
    for setting in ("database_max_acu", "database_min_acu", "daily_tokens", "machine_client"):
        assert f"`{setting}" in text
        assert setting in Settings.model_fields
