"""Users' connections as the environment switches them: what seals their tokens, and who pays for it."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from layover import Agent, wiring
from layover.clock import ManualClock, SystemClock
from layover.errors import ConfigurationError
from layover.plugins.reach.adapters.key_file import KeyFileSealer
from layover.plugins.reach.adapters.kms import KmsSealer
from layover.values.grant import Grant
from support.aws.loopback import KEYS, answer, loopback
from support.forks import wired
from support.oauth import keep

ROOT = Path(__file__).parents[2]
HANDLERS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/handler.py"))
KEY = "arn:aws:kms:eu-west-1:123456789012:alias/shop-connections"
URL = "https://api.example.com/connected"
CACHED = (wiring.environment, wiring.runtime, wiring._aws, wiring._sealer, wiring._grants)
LOADED = (
    "print(json.dumps(sorted(n for n in sys.modules if n.startswith('layover.plugins.reach.adapters') "
    "or n.partition('.')[0] == 'cryptography')))"
)
CONTEXT = {"owner": "a-user"}

Environ = Callable[..., None]


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Iterator[Environ]:
    """`environ(LAYOVER_CONNECTIONS_KEY="...")`: a process that has only just started."""

    def forget() -> None:
        for each in CACHED:
            each.cache_clear()

    def given(**variables: str) -> None:
        for name in ("LAYOVER_CONNECTIONS_KEY", "LAYOVER_CONNECTIONS_URL", "AWS_ENDPOINT_URL"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        forget()

    yield given
    forget()


Modules = Callable[..., Any]


@pytest.fixture(scope="module")
def modules() -> Iterator[Modules]:
    """Return the last line that the code prints, as JSON."""
    with wired() as process:
        yield process.last_line


async def test_without_a_key_nothing_is_sealed_and_the_error_says_so(environ: Environ) -> None:
    environ(LAYOVER_TABLE="t")
    connections = wiring.runtime().connections
    assert connections.redirect_url == ""
    with pytest.raises(ConfigurationError, match="not set up"):
        await connections.sealer.seal("a token", CONTEXT)


async def test_without_a_key_grants_are_erased_all_the_same(
    environ: Environ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They outlive the last agent that had a connection."""
    async with loopback(answer({"Items": []})) as served:
        environ(LAYOVER_TABLE="t", AWS_ENDPOINT_URL=served.url, AWS_REGION="eu-west-1", **KEYS)
        await wiring.runtime().connections.grants.erase("a-user", SystemClock().now())
        assert len(served.requests) == 1
        await wiring._aws().aclose()


def test_arn_is_a_key_of_kms_and_anything_else_the_path_of_a_file(
    environ: Environ, tmp_path: Path
) -> None:
    environ(LAYOVER_CONNECTIONS_KEY=KEY, LAYOVER_CONNECTIONS_URL=URL, AWS_REGION="eu-west-1")
    assert isinstance(wiring._sealer(), KmsSealer)
    assert wiring.runtime().connections.redirect_url == URL
    environ(LAYOVER_CONNECTIONS_KEY=str(tmp_path / "connections.key"))
    assert isinstance(wiring._sealer(), KeyFileSealer)


async def test_key_of_kms_is_asked_in_the_deployments_name(environ: Environ) -> None:
    async with loopback(answer({"CiphertextBlob": "AQID"})) as served:
        environ(
            LAYOVER_CONNECTIONS_KEY=KEY,
            LAYOVER_SERVICE="shop",
            AWS_ENDPOINT_URL=served.url,
            AWS_REGION="eu-west-1",
            **KEYS,
        )
        await wiring.runtime().connections.sealer.seal("a token", CONTEXT)
        await wiring._aws().aclose()
    (request,) = (json.loads(each.body) for each in served.requests)
    assert request["KeyId"] == KEY
    assert request["EncryptionContext"]["layover"] == "shop"


async def test_key_file_is_made_when_a_token_is_sealed_and_not_before(
    environ: Environ, tmp_path: Path
) -> None:
    path = tmp_path / "connections.key"
    environ(LAYOVER_CONNECTIONS_KEY=str(path))
    sealer = wiring.runtime().connections.sealer
    assert not path.exists()
    assert await sealer.open(await sealer.seal("a token", CONTEXT), CONTEXT) == "a token"
    assert path.exists()


async def test_agent_in_this_process_keeps_grants_as_long_as_its_runs(environ: Environ) -> None:
    environ()
    connections = wiring.in_memory_runtime(Agent("clerk")).connections
    assert connections.redirect_url == "http://localhost/connected"
    sealed = await connections.sealer.seal("a token", CONTEXT)
    grant = Grant(
        owner="a-user", connection="github", sealed=sealed, connected_at=ManualClock().now()
    )
    await keep(connections.grants, grant)
    other = wiring.in_memory_runtime(Agent("clerk")).connections
    stored = await connections.grants.get("a-user", "github")
    assert stored is not None
    assert await connections.sealer.open(stored.sealed, CONTEXT) == "a token"
    assert await other.grants.get("a-user", "github") is None


async def test_token_endpoint_is_asked_by_agents_in_this_process(environ: Environ) -> None:
    environ()
    async with loopback(answer({"access_token": "t"})) as served:
        endpoints = wiring.in_memory_runtime(Agent("clerk")).connections.endpoints
        fields = await endpoints.ask(f"{served.url}/token", {"grant_type": "x"})
    assert fields == {"access_token": "t"}


@pytest.mark.parametrize("key", ["", KEY, "connections.key"])
def test_no_function_loads_anything_for_connections_before_it_uses_one(
    modules: Modules, key: str
) -> None:
    handlers = "; ".join(f"import functions.{name}.handler" for name in HANDLERS)
    touch = "from layover import wiring; wiring.runtime().connections"
    init = {"AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand", "LAYOVER_CONNECTIONS_KEY": key}
    assert modules(f"import json, sys; {handlers}; {touch}\n{LOADED}", **init) == []


def test_agent_in_this_process_without_connections_loads_nothing_for_them(modules: Modules) -> None:
    code = (
        "import asyncio, json, sys\nfrom layover import Agent\n"
        "from layover.testing import ScriptedModel, say\nclerk = Agent('clerk')\n"
        "with clerk.override(model=ScriptedModel([say('Hello.')])):\n"
        "    assert asyncio.run(clerk.generate('Hi')).text == 'Hello.'\n"
    )
    assert modules(code + LOADED) == []


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_layer_needs_no_package_for_a_key_of_kms(modules: Modules) -> None:
    """`cryptography` is not in it."""
    code = (
        "import json, sys; sys.modules['cryptography'] = None\n"
        "from layover import wiring; print(json.dumps(type(wiring._sealer()).__name__))"
    )
    assert modules(code, LAYOVER_CONNECTIONS_KEY=KEY) == "KmsSealer"
