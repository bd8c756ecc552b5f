"""The way back from a service: a consent counts only if the browser comes back from where it was sent, and is
the one that was sent there."""

from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from layover import Connection, DefinitionError
from layover.errors import ConsentRefused, NotFound
from layover.plugins.reach.connections.consent import begin_consent, finish_consent
from layover.values.grant import Arrival, Grant
from support.oauth import TOKEN_URL
from unit.plugins.reach.connections.test_tokens import ANN, Shop

PROOF = "a secret of the browser"
HASH = b64encode(sha256(PROOF.encode()).digest()).decode()


def service(name: str, **options: Any) -> Connection:
    facts: dict[str, Any] = {
        "authorize_url": f"https://{name}.example/authorize",
        "token_url": TOKEN_URL,
        "client_id": "layover",
    }
    return Connection(name, **(facts | options))


GOOD, EVIL = service("good"), service("evil")
BOTH = {"good": GOOD, "evil": EVIL}


def asked_of(page: dict[str, Any]) -> dict[str, str]:
    return {
        name: value for name, [value] in parse_qs(urlsplit(page["authorize_url"]).query).items()
    }


async def brought(
    shop: Shop, page: dict[str, Any], arrival: Arrival, connections: Any = BOTH
) -> Grant:
    back = shop.server.consent(page["authorize_url"], ANN)
    return await finish_consent(
        shop.runtime, connections, ANN, back["code"], back["state"], arrival=arrival
    )


async def test_code_of_another_service_is_sent_to_no_service() -> None:
    """A service that turned bad sends the browser on to an honest one, with its own request's state and the
    attacker's challenge: the code would then be the bad one's to take, and its account the attacker's."""
    shop = Shop()
    evil = await begin_consent(shop.runtime, EVIL, ANN)
    attacker = await begin_consent(shop.runtime, GOOD, "mallory")
    state, challenge = asked_of(evil)["state"], asked_of(attacker)["code_challenge"]
    sent_on = f"{GOOD.authorize_url}?response_type=code&client_id=layover&state={state}" + (
        f"&code_challenge={challenge}&code_challenge_method=S256"
        f"&redirect_uri={asked_of(attacker)['redirect_uri']}"
    )
    path = urlsplit(asked_of(attacker)["redirect_uri"]).path
    assert path == "/connected/good"
    back = shop.server.consent(sent_on, ANN)
    for arrival in (Arrival(connection="good"), Arrival(iss="https://good.example")):
        with pytest.raises(ConsentRefused):
            await finish_consent(
                shop.runtime, BOTH, ANN, back["code"], back["state"], arrival=arrival
            )
    assert shop.server.forms == []
    # Its own request is still open for whoever comes back from there.
    kept = await brought(shop, evil, Arrival(connection="evil", iss="https://evil.example"))
    assert kept.connection == "evil"


@pytest.mark.parametrize(
    ("base", "page"),
    [
        ("https://a.example/connected", "https://a.example/connected/good"),
        ("https://a.example/connected/", "https://a.example/connected/good"),
        ("https://a.example", "https://a.example/good"),
        ("https://a.example/x/back?tab=1", "https://a.example/x/back/good?tab=1"),
    ],
)
async def test_each_connection_has_a_page_that_its_code_is_exchanged_for(
    base: str, page: str
) -> None:
    shop = Shop()
    ports = replace(shop.runtime.connections, redirect_url=base)
    shop.runtime = replace(shop.runtime, connections=ports)
    asked = await begin_consent(shop.runtime, GOOD, ANN)
    assert asked_of(asked)["redirect_uri"] == page
    await brought(shop, asked, Arrival(connection="good"))
    assert shop.server.forms[-1]["redirect_uri"] == page


@pytest.mark.parametrize(
    ("issuer", "iss", "is_taken"),
    [
        (None, None, True),
        (None, "https://good.example", True),
        (None, "https://good.example/realms/a", True),
        (None, "https://evil.example", False),
        (None, "http://good.example", False),
        (None, "https://good.example:8443", False),
        (None, "https://good.example.evil.example", False),
        (None, "https://[", False),
        (None, "", False),
        ("https://id.example/a", "https://id.example/a", True),
        ("https://id.example/a", "https://id.example/a/", False),
        ("https://id.example/a", "https://good.example", False),
        ("https://id.example/a", None, False),
    ],
)
async def test_consent_of_another_issuer_is_refused_before_anything_is_exchanged(
    issuer: str | None, iss: str | None, is_taken: bool
) -> None:
    shop, good = Shop(), service("good", issuer=issuer)
    asked = await begin_consent(shop.runtime, good, ANN)
    if is_taken:
        assert await brought(shop, asked, Arrival(iss=iss), {"good": good})
    else:
        with pytest.raises(ConsentRefused, match="another service"):
            await brought(shop, asked, Arrival(iss=iss), {"good": good})
        assert shop.server.forms == []


@pytest.mark.parametrize(
    ("begun_with", "proof", "is_taken"),
    [
        (HASH, PROOF, True),
        (HASH, None, False),
        (HASH, "", False),
        (HASH, HASH, False),
        (HASH, "a secret of another", False),
        (None, None, True),
        (None, PROOF, True),
    ],
)
async def test_consent_that_a_browser_began_is_taken_from_that_browser_only(
    begun_with: str | None, proof: str | None, is_taken: bool
) -> None:
    """Whoever has the state consents with an account of theirs, and sends its user the way back."""
    shop = Shop()
    asked = await begin_consent(shop.runtime, GOOD, ANN, begun_with)
    if is_taken:
        assert await brought(shop, asked, Arrival(proof=proof))
        return
    with pytest.raises(ConsentRefused, match="another browser"):
        await brought(shop, asked, Arrival(proof=proof))
    assert shop.server.forms == []
    assert await brought(shop, asked, Arrival(proof=PROOF))
    with pytest.raises(ConsentRefused, match="another browser"):
        await brought(shop, asked, Arrival(proof=proof))


async def test_way_back_of_another_user_is_not_found_whatever_it_has() -> None:
    shop = Shop()
    asked = await begin_consent(shop.runtime, GOOD, ANN, HASH)
    back = shop.server.consent(asked["authorize_url"], ANN)
    for arrival in (Arrival(), Arrival(connection="good", proof=PROOF)):
        with pytest.raises(NotFound):
            await finish_consent(
                shop.runtime, BOTH, "mallory", back["code"], back["state"], arrival=arrival
            )


@pytest.mark.parametrize("issuer", ["accounts.example.com", "http://a.example", 5])
def test_issuer_that_no_service_has_is_refused(issuer: Any) -> None:
    with pytest.raises(DefinitionError, match="issuer"):
        service("good", issuer=issuer)


def test_two_issuers_of_one_name_are_refused() -> None:
    assert service("good").identity != service("good", issuer="https://id.example").identity
