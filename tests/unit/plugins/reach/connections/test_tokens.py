"""Tokens of connections: renewed once for all that want one, lost by no death that could be helped, and taken
from no answer that is not one."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from layover import Connection, DefinitionError, secret
from layover.adapters.http.direct import DirectClient
from layover.clock import ManualClock
from layover.errors import ConfigurationError, ConsentRefused, NotFound, RetryableError
from layover.inmemory.sealer import InMemorySealer
from layover.inmemory.table import InMemoryTable
from layover.keys import Keys, consent_key, grant_key
from layover.plugins.reach.adapters.endpoints import HttpTokenEndpoints
from layover.plugins.reach.adapters.grants import TableGrants
from layover.plugins.reach.adapters.key_file import KeyFileSealer
from layover.plugins.reach.connections.answers import tokens_in
from layover.plugins.reach.connections.consent import begin_consent, finish_consent
from layover.plugins.reach.connections.leaving import disconnect
from layover.plugins.reach.connections.tokens import RENEWAL, open_tokens, renew, token_of
from layover.ports.grants import GrantPorts, TokenRefused
from layover.ports.table import Put
from layover.runtime import Runtime
from layover.values.grant import Grant
from support.oauth import (
    REDIRECT_URL,
    REVOKE_URL,
    TOKEN_URL,
    Endpoints,
    OAuthServer,
    Sealed,
    keep,
    served,
)
from support.worlds.builder import build_runtime
from support.worlds.loops import LoopClock, skipping

ANN = "ann"
SERVICE = Connection(
    "github",
    authorize_url="https://accounts.example.com/authorize",
    token_url=TOKEN_URL,
    client_id="layover",
)
REVOCABLE = Connection(
    "github",
    authorize_url="https://accounts.example.com/authorize",
    token_url=TOKEN_URL,
    client_id="layover",
    revoke_url=REVOKE_URL,
)


class Shop:
    """Some processes over one table, before one service."""

    def __init__(self, clock: Any = None, **server: Any) -> None:
        self.clock = clock or ManualClock()
        self.server = OAuthServer(self.clock, **server)
        self.table = InMemoryTable()
        self.sealer: Any = Sealed()
        self.endpoints = Endpoints(self.server)
        self.runtime = self.process()

    def process(self, endpoints: Any = None) -> Runtime:
        ports = GrantPorts(
            TableGrants(self.table), self.sealer, endpoints or self.endpoints, REDIRECT_URL
        )
        return build_runtime(clock=self.clock, connections=ports)

    async def connect(self, connection: Connection = SERVICE, owner: str = ANN) -> Grant:
        page = await begin_consent(self.runtime, connection, owner)
        back = self.server.consent(page["authorize_url"], owner)
        return await finish_consent(
            self.runtime, {connection.name: connection}, owner, back["code"], back["state"]
        )

    async def grant(self) -> Grant:
        grant = await self.runtime.connections.grants.get(ANN, "github")
        assert grant is not None
        return grant


@pytest.mark.parametrize("forged", [{}, {"owner": "eve"}])
async def test_record_that_is_copied_to_another_user_opens_for_nobody(
    forged: dict[str, str], tmp_path: Path
) -> None:
    """As it is, or with that user's name in it."""
    for sealer in (Sealed(), InMemorySealer(), KeyFileSealer(tmp_path / "connections.key")):
        shop = Shop()
        shop.sealer = sealer
        shop.runtime = shop.process()
        copied = (await shop.connect()).model_copy(update=forged)
        place = (Keys("eve").grants, grant_key("github"))
        await shop.table.write(Put(*place, {"b": copied.model_dump_json(), "v": copied.version}))
        assert await token_of(shop.runtime, SERVICE, "eve") is None
        assert await open_tokens(shop.runtime, SERVICE, "eve", copied) is None
        assert shop.server.who(await token_of(shop.runtime, SERVICE, ANN) or "") == ANN


@pytest.mark.parametrize(
    "changed",
    [
        {"token_url": "https://other.example/token"},
        {"authorize_url": "https://other.example/authorize"},
        {"client_id": "another"},
    ],
)
async def test_grant_is_sent_to_no_other_service_of_its_name(changed: dict[str, str]) -> None:
    shop = Shop()
    await shop.connect(REVOCABLE)
    token = await token_of(shop.runtime, REVOCABLE, ANN)
    facts: dict[str, Any] = {
        "authorize_url": REVOCABLE.authorize_url,
        "token_url": TOKEN_URL,
        "client_id": "layover",
        "revoke_url": REVOKE_URL,
    }
    other: Any = Connection("github", **(facts | changed))
    forms = len(shop.server.forms)
    for rejected in (None, token):
        assert await token_of(shop.runtime, other, ANN, rejected) is None
    shop.clock.advance(timedelta(days=30))
    assert await token_of(shop.runtime, other, ANN) is None
    assert len(shop.server.forms) == forms
    # Whoever rolls the deployment back finds the account connected.
    assert shop.server.who(await token_of(shop.runtime, REVOCABLE, ANN) or "") == ANN
    page = await begin_consent(shop.runtime, other, ANN)
    shop.server.client_id = other.client_id
    back = shop.server.consent(page["authorize_url"], ANN)
    with pytest.raises(NotFound):
        await finish_consent(shop.runtime, {"github": REVOCABLE}, ANN, back["code"], back["state"])
    assert await disconnect(shop.runtime, other, ANN, "github")
    assert shop.server.revoked == []


async def test_two_accounts_of_the_deployment_that_are_asked_at_once_keep_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CRM", "s")
    shop = Shop()
    one, two = [
        Connection("crm", token_url=url, client_id=url[8:11], client_secret=secret("CRM"))
        for url in ("https://one.example/token", "https://two.example/token")
    ]
    answers = {each.token_url: {"access_token": each.client_id} for each in (one, two)}

    class Each:
        async def ask(self, url: str, form: Any, client: Any = None) -> dict[str, Any]:
            await asyncio.sleep(0)
            return answers[url]

    runtime = shop.process(Each())
    got = await asyncio.gather(*(token_of(runtime, each, ANN) for each in (one, two)))
    assert got == ["one", "two"]


async def test_verifier_of_one_request_is_not_that_of_another() -> None:
    shop = Shop()
    first, second = [
        parse_qs(urlsplit((await begin_consent(shop.runtime, SERVICE, ANN))["authorize_url"]).query)
        for _ in range(2)
    ]
    item = await shop.table.get(Keys(ANN).grants, consent_key(first["state"][0]))
    assert item is not None
    await shop.table.write(Put(Keys(ANN).grants, consent_key(second["state"][0]), {"b": item["b"]}))
    with pytest.raises(ConsentRefused, match="cannot be read any more"):
        await finish_consent(shop.runtime, {"github": SERVICE}, ANN, "code", second["state"][0])


@skipping
async def test_fifty_calls_in_ten_processes_renew_once() -> None:
    shop = Shop(LoopClock())
    await shop.connect()
    await asyncio.sleep(3600 * 24 * 30)
    processes = [shop.process() for _ in range(10)]
    # What `token_of` shares within a process is passed by: the table has to decide.
    got = await asyncio.gather(*(renew(processes[n % 10], SERVICE, ANN, None) for n in range(50)))
    assert shop.server.renewals == 1
    assert {shop.server.who(tokens.access if tokens else "") for tokens in got} == {ANN}


async def test_fifty_calls_in_one_process_renew_once() -> None:
    shop = Shop()
    await shop.connect()
    shop.clock.advance(timedelta(days=30))
    got = await asyncio.gather(*(token_of(shop.runtime, SERVICE, ANN) for _ in range(50)))
    assert shop.server.renewals == 1
    assert {shop.server.who(token or "") for token in got} == {ANN}


async def test_fifty_calls_that_the_api_refused_renew_once() -> None:
    shop = Shop(lives=None)
    await shop.connect()
    token = await token_of(shop.runtime, SERVICE, ANN)
    got = await asyncio.gather(*(token_of(shop.runtime, SERVICE, ANN, token) for _ in range(50)))
    assert shop.server.renewals == 1
    assert token not in got


async def test_call_that_is_cancelled_loses_no_new_refresh_token() -> None:
    shop = Shop()
    await shop.connect()
    shop.clock.advance(timedelta(hours=2))
    shop.endpoints.gate = asyncio.Event()
    task = asyncio.ensure_future(token_of(shop.runtime, SERVICE, ANN))
    while not shop.server.renewals:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    shop.endpoints.gate.set()
    shop.clock.advance(timedelta(seconds=1))
    token = await token_of(shop.runtime, SERVICE, ANN)
    assert shop.server.who(token or "") == ANN
    assert shop.server.renewals == 1


@skipping
async def test_process_that_dies_in_a_renewal_is_followed_by_another_when_its_time_is_over() -> (
    None
):
    """A service that did not answer it yet knows the old token still."""
    shop = Shop(LoopClock())
    await shop.connect()
    await asyncio.sleep(7200)
    grants, grant = shop.runtime.connections.grants, await shop.grant()
    dead = grant.model_copy(update={"renewing_until": shop.clock.now() + RENEWAL})
    assert await grants.replace(grant, dead) is not None
    began = asyncio.get_running_loop().time()
    token = await token_of(shop.runtime, SERVICE, ANN)
    assert shop.server.who(token or "") == ANN
    assert asyncio.get_running_loop().time() - began == pytest.approx(
        RENEWAL.total_seconds(), abs=1
    )


async def test_process_that_slept_in_a_renewal_keeps_what_it_got_although_another_gave_up() -> None:
    """A function's environment stands still between two invocations, for minutes."""
    shop = Shop()
    await shop.connect()
    shop.clock.advance(timedelta(hours=2))
    shop.endpoints.gate = asyncio.Event()
    asleep = asyncio.ensure_future(renew(shop.runtime, SERVICE, ANN, None))
    while not shop.server.renewals:
        await asyncio.sleep(0)
    shop.clock.advance(RENEWAL)
    shop.server.odd = [(400, {"error": "invalid_grant"})]
    other = Endpoints(shop.server)
    assert await renew(shop.process(other), SERVICE, ANN, None) is None
    assert (await shop.grant()).ended_at is not None
    shop.endpoints.gate.set()
    tokens = await asleep
    assert tokens is not None
    assert shop.server.who(tokens.access) == ANN
    assert (await shop.grant()).ended_at is None
    assert await token_of(shop.runtime, SERVICE, ANN) == tokens.access


async def test_new_tokens_are_kept_although_the_table_is_away_for_a_moment() -> None:
    shop = Shop()
    await shop.connect()
    shop.clock.advance(timedelta(hours=2))
    grants = shop.runtime.connections.grants
    inner, faults = grants.replace, [None, RetryableError("throttled"), RetryableError("throttled")]

    async def replace(old: Grant, new: Grant) -> Grant | None:
        fault = faults.pop(0) if faults else None
        if fault is not None:
            raise fault
        return await inner(old, new)

    grants.replace = replace  # type: ignore[method-assign]
    token = await token_of(shop.runtime, SERVICE, ANN)
    assert shop.server.who(token or "") == ANN
    assert (await shop.grant()).renewing_until is None


async def test_account_that_is_disconnected_during_a_renewal_stays_disconnected() -> None:
    """The service is told of the tokens that the renewal brings, too: nobody else knows them."""
    shop, service = Shop(), REVOCABLE
    await shop.connect(service)
    shop.clock.advance(timedelta(hours=2))
    shop.endpoints.gate = asyncio.Event()
    task = asyncio.ensure_future(token_of(shop.runtime, service, ANN))
    while not shop.server.renewals:
        await asyncio.sleep(0)
    assert await disconnect(shop.runtime, service, ANN, "github")
    shop.endpoints.gate.set()
    assert await task is None
    assert await shop.runtime.connections.grants.get(ANN, "github") is None
    assert shop.server.revoked == list(shop.server.refresh)


async def test_account_that_is_disconnected_just_as_a_renewal_ends_is_revoked_as_it_is_then() -> (
    None
):
    shop, service = Shop(), REVOCABLE
    await shop.connect(service)
    shop.clock.advance(timedelta(hours=2))
    grants = shop.runtime.connections.grants
    get = grants.get

    async def renewed_after_get(owner: str, connection: str) -> Grant | None:
        grant = await get(owner, connection)
        grants.get = get  # type: ignore[method-assign]
        await token_of(shop.process(), service, ANN)
        return grant

    grants.get = renewed_after_get  # type: ignore[method-assign]
    assert await disconnect(shop.runtime, service, ANN, "github")
    assert await get(ANN, "github") is None
    assert shop.server.renewals == 1
    assert shop.server.revoked == [list(shop.server.refresh)[-1]]
    assert not await disconnect(shop.runtime, service, ANN, "github")


async def test_consent_during_a_renewal_is_not_replaced_by_it() -> None:
    shop = Shop()
    await shop.connect()
    shop.clock.advance(timedelta(hours=2))
    shop.endpoints.gate = asyncio.Event()
    task = asyncio.ensure_future(token_of(shop.runtime, SERVICE, ANN))
    while not shop.server.renewals:
        await asyncio.sleep(0)
    shop.endpoints.gate.set()
    newer = await shop.connect()
    await task
    assert (await shop.grant()).sealed == newer.sealed


async def test_token_is_renewed_before_it_expires_and_not_sooner() -> None:
    shop = Shop()
    await shop.connect()
    first = await token_of(shop.runtime, SERVICE, ANN)
    shop.clock.advance(timedelta(seconds=3539))
    assert await token_of(shop.runtime, SERVICE, ANN) == first
    shop.clock.advance(timedelta(seconds=1))
    assert await token_of(shop.runtime, SERVICE, ANN) != first


async def test_service_that_is_down_near_the_end_of_a_token_leaves_it_in_use() -> None:
    shop = Shop()
    await shop.connect()
    first = await token_of(shop.runtime, SERVICE, ANN)
    shop.endpoints.down = True
    shop.clock.advance(timedelta(seconds=3550))
    assert await token_of(shop.runtime, SERVICE, ANN) == first
    shop.clock.advance(timedelta(seconds=60))
    with pytest.raises(RetryableError):
        await token_of(shop.runtime, SERVICE, ANN)
    shop.endpoints.down = False
    assert shop.server.who(await token_of(shop.runtime, SERVICE, ANN) or "") == ANN


async def test_token_without_a_way_to_renew_it_is_used_to_its_end_and_then_asked_for() -> None:
    shop = Shop(gives_refresh=False)
    await shop.connect()
    first = await token_of(shop.runtime, SERVICE, ANN)
    shop.clock.advance(timedelta(seconds=3590))
    assert await token_of(shop.runtime, SERVICE, ANN) == first
    shop.clock.advance(timedelta(seconds=10))
    assert await token_of(shop.runtime, SERVICE, ANN) is None
    assert (await shop.grant()).ended_at is not None


async def test_renewal_that_finds_a_grant_without_a_refresh_token_uses_it_to_its_end() -> None:
    """Another consent has come since the caller looked."""
    shop = Shop(gives_refresh=False)
    await shop.connect()
    first = await token_of(shop.runtime, SERVICE, ANN)
    shop.clock.advance(timedelta(seconds=3590))
    tokens = await renew(shop.runtime, SERVICE, ANN, None)
    assert tokens is not None
    assert tokens.access == first
    shop.clock.advance(timedelta(seconds=10))
    assert await renew(shop.runtime, SERVICE, ANN, None) is None
    assert shop.server.renewals == 0


async def test_service_that_does_not_rotate_keeps_its_refresh_token() -> None:
    shop = Shop(rotates=False)
    await shop.connect()
    for _ in range(3):
        shop.clock.advance(timedelta(hours=2))
        assert shop.server.who(await token_of(shop.runtime, SERVICE, ANN) or "") == ANN
    assert shop.server.renewals == 3


async def test_tokens_that_another_key_sealed_are_asked_for_again() -> None:
    shop = Shop()
    await shop.connect()
    ports = replace(shop.runtime.connections, sealer=Sealed())
    assert await token_of(replace(shop.runtime, connections=ports), SERVICE, ANN) is None


async def test_another_users_sealed_tokens_open_for_nobody() -> None:
    """Whoever may write the table must not be able to give one user's account to another."""
    shop = Shop()
    grant = await shop.connect()
    theirs = grant.model_copy(update={"owner": "mallory"})
    await keep(shop.runtime.connections.grants, theirs)
    assert await token_of(shop.runtime, SERVICE, "mallory") is None


async def test_deployment_signs_in_itself_once_for_all_and_again_before_it_expires() -> None:
    machine = Connection(
        "erp", token_url=TOKEN_URL, client_id="layover", client_secret=secret("ERP_SECRET")
    )
    shop = Shop(client_secret="s3cret")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ERP_SECRET", "s3cret")
        got = await asyncio.gather(*(token_of(shop.runtime, machine, ANN) for _ in range(20)))
        assert len({*got}) == 1
        assert len(shop.server.forms) == 1
        shop.clock.advance(timedelta(hours=1))
        assert await token_of(shop.runtime, machine, "bob") not in got
        patch.setenv("ERP_SECRET", "rotated")
        shop.clock.advance(timedelta(hours=1))
        with pytest.raises(ConfigurationError, match="invalid_client"):
            await token_of(shop.runtime, machine, ANN)
    assert (await shop.runtime.connections.grants.list_grants(ANN)) == []


ODD: list[Any] = [
    [],
    "text",
    None,
    {},
    {"access_token": ""},
    {"access_token": 5},
    {"access_token": "with blank"},
    {"access_token": "line\nbreak"},
    {"access_token": "ünïcode"},
    {"access_token": "x" * 20_000},
    {"access_token": "x", "token_type": "DPoP"},
    {"token": "x"},
]


@pytest.mark.parametrize("answer", [a for a in ODD if isinstance(a, dict)])
def test_answer_without_a_token_that_could_be_used_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        tokens_in(answer, ManualClock().now())


@pytest.mark.parametrize(
    ("expires_in", "seconds"),
    [
        ("3600", 3600),
        (3600.5, 3600.5),
        (0, None),
        (-5, None),
        (True, None),
        ("soon", None),
        (1e300, None),
        (float("nan"), None),
        (10**11, 3650 * 86_400),
        (None, None),
    ],
)
def test_lifetimes_as_services_write_them(expires_in: Any, seconds: float | None) -> None:
    now = ManualClock().now()
    tokens = tokens_in({"access_token": "x", "expires_in": expires_in}, now)
    expected = None if seconds is None else now + timedelta(seconds=seconds)
    assert tokens.expires_at == expected


@pytest.mark.parametrize(
    "scope", ["repo user read:org", "repo,user  read:org", ["repo", "user", "read:org", 7]]
)
def test_scopes_are_parted_by_blanks_or_commas_or_in_a_list(scope: Any) -> None:
    answer = {"access_token": "x", "scope": scope}
    assert tokens_in(answer, ManualClock().now()).granted == ("repo", "user", "read:org")


@pytest.mark.parametrize(
    "odd",
    [
        (200, b"<html>"),
        (200, b"[1]"),
        (200, b"[" * 100_000),
        (200, b"\xff\xfe"),
        (200, b"x" * 300_000),
        (302, b""),
        (400, {"error": "invalid_grant"}),
        (400, {"error": "line\nbreak secret"}),
        (404, b""),
        (200, {"error": "bad_verification_code", "error_description": "secret"}),
    ],
)
async def test_odd_answer_over_http_is_a_refusal_in_our_words(odd: Any) -> None:
    shop = Shop(odd=[odd])
    with served(shop.server) as url:
        http = HttpTokenEndpoints(DirectClient)
        with pytest.raises(TokenRefused) as refused:
            tokens_in(await http.ask(url, {"grant_type": "x"}), shop.clock.now())
        await http.aclose()
    assert "secret" not in str(refused.value)
    assert refused.value.code.isascii()


@pytest.mark.parametrize("odd", [(500, b""), (503, {"error": "x"}), (429, b"")])
async def test_service_that_is_broken_may_be_asked_again(odd: Any) -> None:
    shop = Shop(odd=[odd])
    with served(shop.server) as url:
        http = HttpTokenEndpoints(DirectClient)
        with pytest.raises(RetryableError):
            await http.ask(url, {"grant_type": "x"})
        await http.aclose()


async def test_service_that_is_not_there_may_be_asked_again() -> None:
    http = HttpTokenEndpoints(DirectClient)
    with pytest.raises(RetryableError, match=r"127\.0\.0\.1:1 did not answer"):
        await http.ask("http://127.0.0.1:1/token", {})
    await http.aclose()


@pytest.mark.parametrize("basic", [False, True])
async def test_account_is_connected_and_renewed_over_http(
    monkeypatch: pytest.MonkeyPatch, basic: bool
) -> None:
    monkeypatch.setenv("GITHUB_SECRET", "s3:cr et%")
    shop = Shop(client_secret="s3:cr et%", basic=basic)
    with served(shop.server) as url:
        http = HttpTokenEndpoints(DirectClient)
        shop.runtime = shop.process(http)
        connection = Connection(
            "github",
            authorize_url="https://accounts.example.com/authorize",
            token_url=url,
            client_id="layover",
            client_secret=secret("GITHUB_SECRET"),
            client_auth="basic" if basic else "post",
        )
        await shop.connect(connection)
        shop.clock.advance(timedelta(days=30))
        token = await token_of(shop.runtime, connection, ANN)
        assert shop.server.who(token or "") == ANN
        await http.aclose()


async def test_answer_in_a_form_is_read() -> None:
    """GitHub's, where a proxy drops the Accept header."""
    form = ("application/x-www-form-urlencoded", b"access_token=x&scope=repo&token_type=bearer")
    shop = Shop(odd=[(200, form)])
    with served(shop.server) as url:
        http = HttpTokenEndpoints(DirectClient)
        tokens = tokens_in(await http.ask(url, {}), shop.clock.now())
        await http.aclose()
    assert (tokens.access, tokens.granted) == ("x", ("repo",))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"token_url": "http://accounts.example.com/token"}, "token_url"),
        ({"token_url": "https://user:password@example.com/token"}, "without credentials"),
        ({"authorize_url": "accounts.example.com"}, "authorize_url"),
        ({"client_id": ""}, "client_id"),
        ({"client_secret": "plain"}, "client_secret"),
        ({"scopes": "repo"}, "scopes"),
        ({"scopes": ["two words"]}, "scopes"),
        ({"client_auth": "basic"}, "needs client_secret"),
        ({"client_auth": "jwt"}, "client_auth"),
        ({"params": {"state": "mine"}}, "sets state itself"),
        ({"authorize_url": None}, "needs client_secret"),
        ({"name": "with blank"}, "name"),
    ],
)
def test_connection_that_no_service_could_serve_is_refused(
    options: dict[str, Any], says: str
) -> None:
    standard: dict[str, Any] = {
        "name": "github",
        "authorize_url": "https://accounts.example.com/authorize",
        "token_url": TOKEN_URL,
        "client_id": "layover",
    }
    fields = {**standard, **options}
    with pytest.raises(DefinitionError, match=says) as refused:
        Connection(fields.pop("name"), **fields)
    assert "password" not in str(refused.value)
    assert "plain" not in str(refused.value)


async def test_consent_that_the_service_refuses_can_be_asked_for_again() -> None:
    shop = Shop(odd=[(400, {"error": "invalid_grant"})])
    with pytest.raises(ConsentRefused):
        await shop.connect()
    assert (await shop.connect()).connection == "github"
