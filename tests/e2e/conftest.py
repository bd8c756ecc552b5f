"""One system for the whole session; tests keep apart by users and keys of their own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.providers.openai import FakeOpenAI
from support.system.folders import folder
from support.system.system import Brain, Caller, System


@pytest.fixture(scope="session")
def brain() -> Iterator[Brain]:
    """The provider, and what it is to answer."""
    with FakeOpenAI() as provider:
        yield Brain(provider)


@pytest.fixture(scope="session")
def system(brain: Brain) -> Iterator[System]:
    """The session's system."""
    address = {"base_url": brain.provider.base_url}
    providers = {
        "keyed": {**address, "api_key_env": "LAYOVER_PROVIDER_KEY"},
        "keyless": {**address, "api_key_env": "NOBODYS_KEY"},
    }
    variables = {
        "LAYOVER_EMBEDDER_MODEL": "hashing/256",
        "LAYOVER_PROVIDERS": json.dumps(providers),
        "LAYOVER_PROVIDER_KEY": "sk-keyed",
        "LAYOVER_CONTEXT_WINDOWS": '{"fake-1": 128000}',
    }
    with folder("e2e") as data, System(data, brain, variables=variables) as running:
        yield running


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that a system may use (see `folders`)."""
    with folder("e2e") as made:
        yield made


@pytest.fixture
def ann(system: System) -> Caller:
    """A user of this test alone."""
    return system.caller()


@pytest.fixture
def bob(system: System) -> Caller:
    """Another one."""
    return system.caller()
