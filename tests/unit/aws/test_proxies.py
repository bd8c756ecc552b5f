"""AWS's services through a proxy: the only way out of some networks."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from layover.adapters.aws.client import AwsClient
from layover.adapters.aws.credentials import CredentialChain
from layover.adapters.aws.retries import NoAnswer, RetryRules
from layover.adapters.aws.services import AwsServices
from layover.adapters.aws.signature import Signer
from layover.adapters.http import pool
from layover.adapters.http.proxy import proxy_for
from layover.adapters.http.request import join_url
from layover.errors import ConfigurationError
from support.aws.loopback import KEYS, Loopback, answer, loopback, tunnels
from support.certificates import loopback_certificate

OK = answer({"Item": {"n": {"N": "1"}}})
SERVICE = "https://dynamodb.eu-west-1.amazonaws.com"
PROXY = {"HTTPS_PROXY": "http://proxy.example:3128"}


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """What a server on loopback needs, which the clients trust."""
    certificate, server = loopback_certificate(tmp_path)
    trust = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr(pool, "system_trust", lambda: trust)
    return server


def client_of(served: Loopback, **variables: str) -> AwsClient:
    return AwsClient(
        served.url,
        Signer("dynamodb", "eu-west-1"),
        CredentialChain(KEYS),
        retries=RetryRules(0.0, 1),
        variables=variables,
    )


async def ask(client: AwsClient) -> dict[str, Any]:
    try:
        return await client.call("DynamoDB_20120810.GetItem", {"TableName": "t"})
    finally:
        await client.aclose()


async def test_a_request_goes_through_the_proxy_and_only_the_service_reads_it(
    tls: ssl.SSLContext,
) -> None:
    async with loopback(OK, tls=tls) as served, tunnels() as proxy:
        client = client_of(served, HTTPS_PROXY=proxy.url.replace("//", "//ann:p%40ss@"))
        assert await ask(client) == {"Item": {"n": {"N": "1"}}}
        [head] = proxy.heads
        host = served.url.removeprefix("https://")
        assert head.startswith(f"CONNECT {host} HTTP/1.1\r\nhost: {host}\r\n")
        # `ann:p@ss`
        assert "proxy-authorization: Basic YW5uOnBAc3M=" in head
        [request] = served.requests
        assert "proxy-authorization" not in request.headers
        assert request.headers["host"] == host


async def test_the_next_request_takes_the_same_tunnel(tls: ssl.SSLContext) -> None:
    async with loopback(OK, tls=tls) as served, tunnels() as proxy:
        client = client_of(served, https_proxy=proxy.url)
        for _ in range(3):
            await client.call("DynamoDB_20120810.GetItem", {})
        await client.aclose()
        assert len(proxy.heads) == 1
        assert len(served.requests) == 3


async def test_the_way_to_the_proxy_may_be_encrypted_too(tls: ssl.SSLContext) -> None:
    async with loopback(OK, tls=tls) as served, tunnels(tls=tls) as proxy:
        assert await ask(client_of(served, https_proxy=proxy.url))
        assert len(proxy.heads) == 1


@pytest.mark.parametrize("excluded", ["127.0.0.1", "*", "example.com, 127.0.0.1"])
async def test_hosts_that_need_no_proxy_are_asked_directly(
    tls: ssl.SSLContext, excluded: str
) -> None:
    async with loopback(OK, tls=tls) as served, tunnels() as proxy:
        assert await ask(client_of(served, HTTPS_PROXY=proxy.url, NO_PROXY=excluded))
        assert proxy.heads == []


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "refused the connection (407)"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "refused the connection (503)"),
        (b"nonsense\r\n\r\n", "refused the connection (no status)"),
        (b"HTTP/1.1 200", "the proxy closed the connection"),
        (b"x" * 20_000, "the proxy's answer is too long"),
    ],
    ids=["asks for a password", "is busy", "is none", "hangs up", "never ends"],
)
async def test_a_proxy_that_opens_no_tunnel_is_told_apart_from_the_service(
    tls: ssl.SSLContext, refusal: bytes, told: str
) -> None:
    async with loopback(OK, tls=tls) as served, tunnels(refusal) as proxy:
        with pytest.raises(NoAnswer) as caught:
            await ask(client_of(served, HTTPS_PROXY=proxy.url))
        assert told in str(caught.value)
        assert served.requests == []


async def test_a_proxy_cannot_pose_as_the_service(tmp_path: Path) -> None:
    """The certificate is the service's own, whoever is in between."""
    _, nobodys = loopback_certificate(tmp_path)
    async with loopback(OK, tls=nobodys) as served, tunnels() as proxy:
        with pytest.raises(NoAnswer, match="SSLCertVerificationError"):
            await ask(client_of(served, HTTPS_PROXY=proxy.url))


@pytest.mark.parametrize(
    ("variables", "host"),
    [
        ({}, None),
        ({"HTTPS_PROXY": ""}, None),
        (PROXY, "proxy.example"),
        ({"HTTPS_PROXY": "proxy.example:3128"}, "proxy.example"),
        # As for boto3: that of the other scheme, and the one for all, are not for https.
        ({"HTTP_PROXY": "http://other.example"}, None),
        ({"ALL_PROXY": "http://other.example"}, None),
        # The spelling in lower case wins.
        ({**PROXY, "https_proxy": "http://lower.example"}, "lower.example"),
        ({**PROXY, "NO_PROXY": ".amazonaws.com"}, None),
        ({**PROXY, "NO_PROXY": "amazonaws.com"}, None),
        ({**PROXY, "no_proxy": "dynamodb.eu-west-1.amazonaws.com"}, None),
        ({**PROXY, "NO_PROXY": "example.com,s3.amazonaws.com"}, "proxy.example"),
        ({**PROXY, "NO_PROXY": "*", "no_proxy": "example.com"}, "proxy.example"),
    ],
    ids=str,
)
def test_variables_name_the_proxy_as_they_do_for_boto3(
    variables: dict[str, str], host: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = proxy_for(join_url(SERVICE, ""), variables)
    assert (proxy and proxy.target.host) == host
    from botocore.utils import get_environ_proxies

    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    theirs = get_environ_proxies(SERVICE).get("https") or ""
    assert (host or "") in theirs
    assert bool(theirs) == (host is not None)


def test_a_server_without_tls_is_asked_directly() -> None:
    assert proxy_for(join_url("http://127.0.0.1:4566", ""), PROXY) is None


def test_a_proxy_that_is_no_url_is_refused_without_its_password() -> None:
    with pytest.raises(ConfigurationError, match="HTTPS_PROXY is not a proxy's URL") as caught:
        proxy_for(join_url(SERVICE, ""), {"HTTPS_PROXY": "socks5://ann:secret@proxy"})
    assert "secret" not in str(caught.value)


async def test_every_client_of_the_process_takes_the_proxy(tls: ssl.SSLContext) -> None:
    async with loopback(OK, tls=tls) as served, tunnels() as proxy:
        variables = {**KEYS, "AWS_REGION": "eu-west-1", "HTTPS_PROXY": proxy.url}
        services = AwsServices({**variables, "AWS_ENDPOINT_URL": served.url})
        await services.client("dynamodb").call("DynamoDB_20120810.GetItem", {})
        at = services.client_at(served.url, "execute-api")
        await at.send("POST", "/x", {}, b"{}")
        await services.aclose()
        await at.aclose()
        assert len(proxy.heads) == 2
