"""A channel is a folder with one declaration: whatever reads that serves a channel that it has never seen."""

import ast
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from layover.plugins.people import channels as package
from layover.plugins.people.channel import Channel, Form, Services
from layover.plugins.people.channels import CHANNELS
from layover.plugins.people.channels.twins import Outbox
from layover.plugins.people.config import read_channels
from layover.values.channels import Channels
from support.inmemory.sender import InMemorySender
from support.worlds.channels import BEA, CARL, asked

FOLDERS = Path(package.__file__).parent
LIGHT = {"layover.lazy", "layover.plugins.people.channel", "layover.values.channels"}
"""Modules that a declaration may import at once."""
BEEPER = Channel(
    name="beeper",
    address=Form(re.compile(r"[A-Z_]+"), "the name of a secret"),
    make_sender=lambda services: InMemorySender(updates=False),
    person=Form(re.compile(r"B[0-9]+"), "the number of a beeper, such as B7"),
)
WITH_BEEPER = (*CHANNELS, BEEPER)
NO_SERVICES = Services(Channels(), {}, lambda: pytest.fail("asked"), lambda: pytest.fail("asked"))


def test_every_folder_is_a_channel_of_the_list() -> None:
    folders = {path.parent.name for path in FOLDERS.glob("*/__init__.py")}
    assert folders == {channel.name for channel in CHANNELS}


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_a_declaration_loads_no_sender(channel: Channel) -> None:
    text = (FOLDERS / channel.name / "__init__.py").read_text()
    imports = [node.module for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]
    assert {name for name in imports if name and name.startswith("layover")} <= LIGHT


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_a_channel_has_a_twin_that_sets_what_its_sender_reads(channel: Channel) -> None:
    twins = import_module(f"{package.__name__}.{channel.name}.twin")
    twin = twins.make_twin(Outbox(), "http://127.0.0.1:1/twin")
    assert {*channel.answering_secrets, *channel.secrets, *channel.variables} == {*twin.variables}


def test_a_configuration_names_the_channels_that_there_are() -> None:
    document = {"finance": [{"beeper": "DUTY"}]}
    assert read_channels(document, WITH_BEEPER).groups["finance"][0].channel == "beeper"
    with pytest.raises(Exception, match=r"no channel 'beeper'"):
        read_channels(document)
    with pytest.raises(Exception, match=r"finance': beeper is not the name of a secret"):
        read_channels({"finance": [{"beeper": "duty"}]}, WITH_BEEPER)
    people = {"bea@example.com": {"id": "bea", "beeper": "7"}}
    with pytest.raises(Exception, match=r"beeper is not the number of a beeper, such as B7"):
        read_channels({"people": people}, WITH_BEEPER)


async def test_people_are_told_by_a_channel_that_a_test_declares() -> None:
    people = {
        "bea@example.com": {"id": BEA.id, "groups": ["finance"]},
        "ann@example.com": {"id": "ann", "beeper": "B7"},
    }
    groups = {"finance": [{"beeper": "DUTY"}], "owner": [{"beeper": "@owner"}]}
    config = read_channels({**groups, "people": people}, WITH_BEEPER)
    told, run = await asked(config=config)
    sender = BEEPER.make_sender(NO_SERVICES)
    assert isinstance(sender, InMemorySender)
    told.ports = replace(told.ports, senders={BEEPER.name: sender})
    told.runtime = replace(told.runtime, channels=told.ports)
    await told.tell()
    assert [m.address.to for m in sender.messages.values()] == ["DUTY"]
    for person in (BEA, CARL):
        await told.decide(person, run, "approve")
    await told.tell()
    assert [m.address.to for m in sender.messages.values()] == ["DUTY", "DUTY", "B7"]
