"""Signing in at a provider's page: authorization code with PKCE, as with Cognito.

The provider verifies what the page sends; its tokens are those that the one-machine system takes."""

from collections.abc import Iterator

import pytest

from browser.conftest import Enter
from browser.person import Delay, Person
from support.providers.oidc import Deployment
from support.providers.openai import say
from support.system.system import Brain, System, unique

FAILED = "The sign-in was not completed"
WELCOME = "Your threads will appear here."


@pytest.fixture
def provider() -> Iterator[Deployment]:
    """A provider that makes each sign-in a user of the system."""
    with Deployment() as running:
        running.tokens_begin = f"dev:{unique('ann')};groups=g"
        yield running
        assert running.wrong == []


def at_the_door(enter: Enter, provider: Deployment, *refusals: int) -> Person:
    """Return a person who is not signed in yet."""
    access = {"issuer": provider.issuer, "client_id": "people", "scope": "layover/use"}
    return enter(access={**access, "stream_url": None}, refusals=refusals)


def sign_in(person: Person) -> None:
    person.button("Sign in").click()
    person.sees(WELCOME)


def test_answer_to_somebody_elses_sign_in_is_refused(enter: Enter, provider: Deployment) -> None:
    ann = at_the_door(enter, provider)
    ann.button("Sign in").wait_for()
    ann.page.goto(f"{ann.url}/?code=code-0&state=stolen")
    ann.sees(FAILED)
    assert provider.given == 0
    assert "stolen" not in ann.page.url


def test_person_who_declines_is_told_and_may_try_again(enter: Enter, provider: Deployment) -> None:
    ann = at_the_door(enter, provider)
    provider.denies = True
    ann.button("Sign in").click()
    ann.sees(FAILED)
    ann.picture("sign-in-failed")
    provider.denies = False
    ann.button("Try again").click()
    sign_in(ann)


def test_code_is_redeemed_with_its_verifier_and_the_page_is_where_it_was(
    enter: Enter, provider: Deployment, brain: Brain, system: System, axe: str
) -> None:
    ann = at_the_door(enter, provider)
    ann.page.goto(f"{ann.url}/#/usage")
    assert ann.findings(axe) == []
    ann.button("Sign in").click()
    ann.page.get_by_role("heading", name="Usage", exact=True).wait_for()
    assert provider.places == [f"{system.url}/"]
    assert provider.given == 1
    assert "code=" not in ann.page.url
    ann.page.goto(f"{ann.url}/#/new")
    ann.begin(brain.plan(say("Hello.")))
    ann.answered()
    ann.page.reload()
    ann.sees("Hello.")
    assert provider.given == 1


def test_evaluations_are_at_their_address_and_not_in_the_menu_of_a_deployment(
    enter: Enter, provider: Deployment
) -> None:
    ann = at_the_door(enter, provider)
    sign_in(ann)
    menu = ann.page.get_by_role("navigation")
    assert menu.get_by_text("Usage").count() == 1
    assert menu.get_by_text("Evaluations").count() == 0
    ann.open("evals")
    ann.page.get_by_role("heading", name="Evaluations", exact=True).wait_for()


def test_token_is_renewed_before_it_ends(
    enter: Enter, provider: Deployment, brain: Brain, system: System
) -> None:
    ann = at_the_door(enter, provider)
    sign_in(ann)
    first = provider.token
    used: list[str] = []
    ann.page.on("request", lambda request: used.append(request.headers.get("authorization", "")))
    ann.page.clock.install()
    ann.page.clock.fast_forward("59:30")
    ann.begin(brain.plan(say("Hello.")))
    ann.answered()
    assert provider.given == 2
    assert f"Bearer {provider.token}" in used
    assert f"Bearer {first}" not in used


def test_refused_renewal_asks_to_sign_in_again(enter: Enter, provider: Deployment) -> None:
    ann = at_the_door(enter, provider, 400, 401)
    provider.expires_in = 30
    provider.refuses_refresh = True
    ann.button("Sign in").click()
    ann.sees("Your sign-in has ended")
    ann.picture("sign-in-ended")
    provider.expires_in = 3600
    sign_in(ann)


def test_sign_out_revokes_the_refresh_token_and_ends_the_providers_session(
    enter: Enter, provider: Deployment
) -> None:
    ann = at_the_door(enter, provider)
    sign_in(ann)
    assert provider.sessions == 1
    ann.button("Sign out").click()
    ann.button("Sign in").wait_for()
    revoked, ended = provider.ends
    assert revoked == {
        "client_id": "people",
        "token": "refresh",
        "token_type_hint": "refresh_token",
    }
    # The standard's words, and Cognito's.
    back = {"post_logout_redirect_uri": f"{ann.url}/", "logout_uri": f"{ann.url}/"}
    assert ended == {"client_id": "people", "id_token_hint": "who", **back}
    assert provider.sessions == 0
    assert provider.refresh != "refresh"
    assert ann.page.evaluate("sessionStorage.getItem('layover.tokens')") is None


def test_sign_out_is_one_here_where_the_provider_cannot_be_told(
    enter: Enter, provider: Deployment
) -> None:
    ann = at_the_door(enter, provider, 503)
    provider.has_ends = False
    for cut in (False, True):
        sign_in(ann)
        if cut:
            ann.page.route("**/openid-configuration", lambda route: route.fulfill(status=503))
        ann.button("Sign out").click()
        ann.sees("Your sign-in provider may still know you")
        assert ann.page.evaluate("sessionStorage.getItem('layover.tokens')") is None
    ann.picture("signed-out-here")


def test_tokens_that_were_on_their_way_at_a_sign_out_sign_nobody_in(
    enter: Enter, provider: Deployment
) -> None:
    ann = at_the_door(enter, provider, 401)
    provider.has_ends = False
    sign_in(ann)
    ann.page.clock.install()
    ann.page.clock.fast_forward("59:30")
    on_its_way = Delay(ann.page, "POST", "/token$")
    ann.open("usage")
    on_its_way.begun()
    ann.button("Sign out").click()
    ann.button("Sign in").wait_for()
    on_its_way.end()
    ann.page.reload()
    ann.button("Sign in").wait_for()
    assert ann.page.evaluate("sessionStorage.getItem('layover.tokens')") is None


def test_another_name_in_one_tab_changes_nobody_in_the_other_tabs(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(say("First answer.")))
    ann.answered()
    other = ann.tab()  # It begins as the same person.
    ann.button("Sign out", other).click()
    other.get_by_label("Your name").fill(unique("bob"))
    ann.button("Continue", other).click()
    ann.sees(WELCOME, other)
    ann.say(brain.plan(say("Second answer.")))
    ann.sees("Second answer.")
    ann.page.reload()
    ann.sees("Second answer.")


def test_tab_that_signed_out_stays_so_while_others_are_signed_in(enter: Enter) -> None:
    ann = enter().sign_in()
    ann.button("Sign out").click()
    other = ann.tab()
    other.get_by_label("Your name").fill(unique("bob"))
    ann.button("Continue", other).click()
    ann.sees(WELCOME, other)
    ann.page.reload()
    ann.page.get_by_label("Your name").wait_for()
