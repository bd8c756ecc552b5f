"""The whole OpenAPI document, tried by schemathesis on the real handler: what it promises is what comes, two
users see nothing of each other, and nothing is answered with a 5xx."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from functions.api.problems import BEYOND_SCHEMAS
from integration.api.test_openapi import CALLS
from support.examples import examples
from support.worlds.served import Served

USERS = ("ann", "bob")
PLAIN = {
    *((method, path) for method, path in CALLS if method == "delete" and "{" in path),
    ("delete", "/me"),
    ("get", "/decide/{token}"),
    ("get", "/me/connections"),
    ("post", "/me/connections/{name}"),
    ("post", "/memory/entries/{entry_id}/restore"),
    ("get", "/me/export"),
    ("get", "/me/exports"),
    ("get", "/me/exports/{export_id}"),
    ("get", "/healthz"),
    ("get", "/.well-known/layover"),
    ("get", "/.well-known/oauth-protected-resource/mcp"),
    ("get", "/threads/{thread_id}"),
    ("get", "/threads/{thread_id}/memory"),
    ("get", "/files/{file_id}"),
    ("get", "/runs/{run_id}/tool-calls/{tool_call_id}"),
    ("get", "/runs/{run_id}/tool-calls/{tool_call_id}/result"),
    ("post", "/runs/{run_id}/cancel"),
    ("post", "/runs/{run_id}/redrive"),
    ("get", "/operate/switch"),
    ("delete", "/operate/switch"),
    ("get", "/chat/{agent}/{chat_id}/stream"),
    # Without Slack's signature, everything is refused alike.
    ("post", "/channels/slack"),
}
"""Calls that take ids alone, or nothing: there is no wrong way to make them."""
BOUNDED = settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
]
JSON = dict[str, Any]


@dataclass
class Fuzzer:
    """schemathesis with the document of the application, and what each of two users has there."""

    served: Served
    schema: Any
    client: Any
    checks: list[Any]
    has: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    untouched: bool = False
    """True: nothing has changed what both have."""

    def ask(self, user: str, method: str, path: str, body: Any = None) -> JSON:
        """One request that is answered well."""
        url = f"http://testserver{path}"
        answer = self.client.request(method, url, headers=token(user), json=body)
        assert answer.status_code < 300, answer.text
        document: JSON = answer.json()
        return document

    def begin(self, *, anew: bool) -> None:
        """A world in which both users have one of everything. `anew`: calls will change it."""
        self.served.leaks.clear()
        self.statuses.clear()
        if self.untouched and not anew:
            return
        self.served.restart()
        self.untouched = not anew
        for user in USERS:
            thread = self.ask(user, "POST", "/threads", {"agent": "support"})["id"]
            run = self.ask(user, "POST", f"/threads/{thread}/runs", {"input": "hello"})["id"]
            file = {"name": "a.txt", "mime_type": "text/plain", "size": 1}
            self.has[user] = {
                "thread_id": [thread],
                "run_id": [run],
                "tool_call_id": ["refund/1", "book", "export"],
                "file_id": [self.ask(user, "POST", "/files", file)["id"]],
                "entry_id": [self.served.learn(user, thread, run)],
                "agent": ["support"],
            }

    def give(self, case: Any, user: str, pick: int) -> None:
        """Name things of the user's in a case that was made up."""
        owned = self.has[user]
        for place in (case.path_parameters, case.query, case.body):
            if isinstance(place, dict):
                place.update({n: owned[n][pick % len(owned[n])] for n in place if n in owned})

    def judge(self, case: Any, user: str) -> int:
        """Send a case; the answer is what is documented, and shows nothing of another user's. Its status."""
        answer = case.call(headers=token(user))
        case.validate_response(answer, checks=self.checks, headers=token(user))
        self.statuses[int(answer.status_code)] += 1
        assert not self.served.leaks
        if case.meta.generation.mode.is_positive and answer.status_code in (400, 422):
            assert_no_schema_can_say(answer.json())
        return int(answer.status_code)


def token(user: str) -> dict[str, str]:
    """One that may redrive and audit, too: else these calls would refuse whatever is sent."""
    return {"Authorization": f"Bearer dev:{user};scopes=operate,audit,read-content"}


def assert_no_schema_can_say(problem: JSON) -> None:
    """Check that a request which the document lets pass is refused for these reasons alone."""
    if not problem["type"].endswith(":decision-invalid"):
        assert {e["type"] for e in problem["errors"]} <= BEYOND_SCHEMAS.keys(), problem


def under_a_local_name(front: Any) -> Any:
    """The front, asked under a name of this machine, as it wants to be: the fuzzer has one of its own."""

    async def ask(scope: dict[str, Any], receive: Any, send: Any) -> None:
        others = [(n, v) for n, v in scope.get("headers", ()) if n.lower() != b"host"]
        await front({**scope, "headers": [*others, (b"host", b"localhost")]}, receive, send)

    return ask


@pytest.fixture(scope="module")
def fuzzer() -> Iterator[Fuzzer]:
    # They take a second to load, and no other test needs them.
    import schemathesis
    from schemathesis import checks
    from schemathesis.python.asgi import get_client

    served = Served()
    front = under_a_local_name(served.front)
    checks.load_all_checks()
    schema = schemathesis.openapi.from_asgi("/openapi.json", front)
    # Tokens are for tests of their own. No document can say that a call has no parameters but its own.
    schema.config.generation.with_security_parameters = False
    schema.config.generation.allow_extra_parameters = False
    # What is too large is refused by a status of its own.
    schema.config.checks.negative_data_rejection.expected_statuses.append("413")
    with get_client(front) as client:
        yield Fuzzer(served, schema, client, checks.CHECKS.get_by_names(CHECKS))
    served.close()


@pytest.mark.parametrize(("method", "path"), sorted(CALLS))
def test_requests_that_the_document_permits_are_answered_as_it_says(
    fuzzer: Fuzzer, method: str, path: str
) -> None:
    from schemathesis import GenerationMode

    fuzzer.begin(anew=method != "get")
    cases = fuzzer.schema[path][method].as_strategy(generation_mode=GenerationMode.POSITIVE)

    @settings(BOUNDED, max_examples=examples(16).max_examples)
    @given(cases, st.sampled_from(["ann", "bob", ""]), st.integers(0, 2))
    def ask(case: Any, owner: str, pick: int) -> None:
        if owner:
            fuzzer.give(case, owner, pick)
        # The stranger comes first, while there is something to see.
        fuzzer.judge(case, "bob" if owner == "ann" else "ann")
        fuzzer.judge(case, owner or "ann")

    ask()


@pytest.mark.parametrize(("method", "path"), sorted(c for c in CALLS if c not in PLAIN))
def test_requests_that_the_document_forbids_are_refused_as_it_says(
    fuzzer: Fuzzer, method: str, path: str
) -> None:
    from schemathesis import GenerationMode

    fuzzer.begin(anew=False)
    cases = fuzzer.schema[path][method].as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @settings(BOUNDED, max_examples=examples(12).max_examples)
    @given(cases)
    def ask(case: Any) -> None:
        fuzzer.judge(case, "ann")

    ask()
