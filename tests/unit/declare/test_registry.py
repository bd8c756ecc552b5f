"""Finding agents in a module."""

import sys
from pathlib import Path

import pytest

from layover import DefinitionError
from layover.declare.registry import load_agents


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"agents_{tmp_path.name.replace('-', '_')}"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, name)
    return name


def write(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / f"{name}.py").write_text(f"from layover import Agent, tool\n{text}\n")


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(DefinitionError, match=r"'no_such_agents'.*ModuleNotFoundError"):
        load_agents("no_such_agents")


def test_a_module_that_fails_says_how_and_keeps_the_cause(tmp_path: Path, module: str) -> None:
    write(tmp_path, module, "1 / 0")
    with pytest.raises(DefinitionError, match="ZeroDivisionError: division by zero") as caught:
        load_agents(module)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_import_of_a_mistyped_name_says_the_nearest(tmp_path: Path, module: str) -> None:
    write(tmp_path, module, "from layover import Agnet")
    with pytest.raises(DefinitionError, match=r"'Agnet' from .*: did you mean 'Agent'\?$"):
        load_agents(module)


def test_a_tool_that_cannot_work_is_heard_of(tmp_path: Path, module: str) -> None:
    write(tmp_path, module, "@tool\ndef pay(amount): ...")
    with pytest.raises(DefinitionError, match="'amount' has no type hint"):
        load_agents(module)


def test_a_module_without_agents_is_refused(tmp_path: Path, module: str) -> None:
    write(tmp_path, module, "agents = [Agent('a')]")
    with pytest.raises(DefinitionError, match="no Agent at its top level"):
        load_agents(module)


def test_two_agents_of_one_name_are_refused(tmp_path: Path, module: str) -> None:
    write(tmp_path, module, "a = Agent('twin')\nb = Agent('twin')")
    with pytest.raises(DefinitionError, match="two agents called 'twin'"):
        load_agents(module)


def test_agents_are_found_imported_ones_too(tmp_path: Path, module: str) -> None:
    write(tmp_path, f"{module}_more", "second = Agent('second')")
    write(
        tmp_path,
        module,
        f"from {module}_more import second\nfirst = Agent('first')\nalias = first",
    )
    assert list(load_agents(module)) == ["second", "first"]


def test_handlers_that_no_served_run_calls_are_warned_of(
    tmp_path: Path, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, module, "a = Agent('a')\na.on('finish', print)\nb = Agent('b')")
    agents = load_agents(module)
    assert [r.getMessage().partition(",")[0] for r in caplog.records] == [
        "agent 'a': handlers of `on` hear only runs of this process (`generate`"
    ]
    caplog.clear()
    load_agents(module)
    assert caplog.records == []
    agents["b"].on("finish", print)
    assert "agent 'b'" in caplog.text


_CONNECTIONS = """
from layover import Connection, secret
def of(host, **options):
    return Connection("hub", token_url=f"https://{host}.example/token", client_id="i", **options)
page = {"authorize_url": "https://one.example/page"}
own = {"client_secret": secret("ONE")}
"""


@pytest.mark.parametrize(
    "agents",
    [
        "a = Agent('a', connections=[of('one', **page)]); b = Agent('b', connections=[of('two', **page)])",
        "a = Agent('a', connections=[of('one', **own)]); b = Agent('b', connections=[of('two', **own)])",
        "a = Agent('a', connections=[of('one', **page)]); b = Agent('b', connections=[of('one', **own)])",
        "a = Agent('a', connections=[of('one', **own)])\n"
        "b = Agent('b', connections=[of('one', client_secret=secret('TWO'))])",
        "inner = [Agent('a', connections=[of('one', **page)]).as_tool('Ask.')]\n"
        "b = Agent('b', connections=[of('two', **page)], tools=inner)",
        "inner = [Agent('a', connections=[of('one', **page)])]\n"
        "b = Agent('b', connections=[of('two', **page)], handoffs=inner)",
    ],
)
def test_two_services_of_one_name_are_refused_when_agents_are_loaded(
    tmp_path: Path, module: str, agents: str
) -> None:
    write(tmp_path, module, _CONNECTIONS + agents)
    with pytest.raises(DefinitionError, match="different connections called 'hub'"):
        load_agents(module)


def test_connection_that_is_declared_twice_is_one(tmp_path: Path, module: str) -> None:
    twice = "a, b = [Agent(n, connections=[of('one', **page)]) for n in ('a', 'b')]"
    write(tmp_path, module, _CONNECTIONS + twice)
    assert set(load_agents(module)) == {"a", "b"}
