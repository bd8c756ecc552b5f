"""`layover mcp inspect`."""

import asyncio
from pathlib import Path

from support.commands import Ended, call
from support.mcp_servers import Raw, ScriptedServer, listed, serving

ORDER = {"type": "object", "properties": {"id": {}, "fast": {}}, "required": ["id"]}


async def inspect(server: ScriptedServer, *options: str, **env: str) -> Ended:
    async with serving(server):
        words = ["mcp", "inspect", server.url, "--private", "--name", "shop", *options]
        return await asyncio.to_thread(lambda: call(Path(), *words, without=(), **env))


async def test_inspect_shows_what_an_agent_would_get_and_calls_nothing() -> None:
    tools = (
        listed("find", ORDER, "Find\nan order.", readOnlyHint=True),
        listed("drop", destructiveHint=True),
        listed("bad", {"type": "array"}),
    )
    server = ScriptedServer(*tools)
    shown = await inspect(server)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        "shop: 2 tools, 1 left out",
        "",
        "shop_find  (read-only)",
        "  Find an order.",
        "  id [fast]",
        "",
        "shop_drop  (destructive, waits for a person)",
        "  no arguments",
        "",
        "left out: bad: schema must be the JSON schema of an object, not {'type': 'array'}",
    ]
    assert not server.requests("tools/call")


async def test_strangers_words_move_no_cursor_of_a_terminal() -> None:
    evil = "\x1b[2J\u202eevil"
    shown = await inspect(
        ScriptedServer(listed(evil, {"type": "array"}), listed("a", description=evil))
    )
    assert "\x1b" not in shown.stdout
    assert "\u202e" not in shown.stdout


async def test_header_has_the_value_of_a_variable() -> None:
    server = ScriptedServer()
    shown = await inspect(server, "--header", "authorization=SHOP_TOKEN", SHOP_TOKEN="bearer t1")
    assert shown.returncode == 0
    assert {each.headers["authorization"] for each in server.asked} == {"bearer t1"}


async def test_header_of_a_variable_that_is_not_set_asks_nobody() -> None:
    server = ScriptedServer()
    shown = await inspect(server, "--header", "authorization=NO_SUCH_VARIABLE")
    assert shown.returncode == 2
    assert "NO_SUCH_VARIABLE" in shown.stderr
    assert not server.asked


async def test_server_that_refuses_the_credentials_is_told_apart_from_one_that_is_away() -> None:
    refusing = await inspect(ScriptedServer(on={"initialize": lambda _: Raw(401)}))
    assert refusing.returncode == 1
    assert "credentials" in refusing.stderr
    down = ScriptedServer()
    async with serving(down):
        pass
    away = await asyncio.to_thread(call, Path(), "mcp", "inspect", down.url, "--private")
    assert away.returncode == 3
