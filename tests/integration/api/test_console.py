"""The console as it is served: small, from this host alone, and cached by its content."""

import gzip
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from functions.api.console.assets import (
    DECIDE_MODULES,
    FOLDER,
    LIBRARIES,
    MODULES,
    assets,
    version,
)
from integration.api.kit import Api, TestHost
from layover.values.deployment.access import Access
from support.worlds.services import ServiceBench

MAX_GZIPPED = 150_000
"""Bytes of the whole page."""
MAX_GZIPPED_LINK = 46_200
"""Bytes of the page of a link."""
_ROW = re.compile(r"^\| `([\w.]+)` \|.*\| `([0-9a-f]{64})` \|$", re.MULTILINE)
_NAME = re.compile(
    r"^(?:export )?(?:async )?(?:function\*? |const |let |class )(\w+)", re.MULTILINE
)


def directives(policy: str) -> dict[str, list[str]]:
    """Sources by directive."""
    return {name: rest for name, *rest in (part.split() for part in policy.split(";"))}


def sources() -> Iterator[tuple[str, str]]:
    """Our own modules."""
    for path in sorted((FOLDER / "page").glob("*.js")):
        yield path.stem, path.read_text(encoding="utf-8")


def test_unknown_file_of_the_console_is_not_found(api: Api) -> None:
    answer = api.get(f"/console/{version()}/../app.py", sub=None)
    assert answer.status in (401, 404)
    assert api.get(f"/console/{version()}/secret.js", sub=None).status == 404


def test_page_runs_its_own_scripts_alone_and_is_in_no_frame(api: Api) -> None:
    answer = api.get("/", sub=None)
    policy = directives(answer.headers["content-security-policy"])
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == ["'none'"]
    assert policy["script-src"] == policy["style-src"] == policy["img-src"] == ["'self'"]
    assert policy["require-trusted-types-for"] == ["'script'"]
    assert "<style" not in answer.body
    assert not re.search(r"<script(?![^>]* src=)", answer.body)
    assert not re.search(r"\son\w+=", answer.body)


def test_page_of_a_deployment_asks_exactly_the_hosts_that_it_uses(world: ServiceBench) -> None:
    access = Access(issuer="https://id.example/pool", stream_url="https://streams.example/live/")
    sources = "https://tokens.example/token https://files.s3.eu-west-1.amazonaws.com/"
    settings = world.runtime.settings.model_copy(update={"access": access, "page_sources": sources})
    world.runtime = replace(world.runtime, settings=settings)
    host = TestHost(world)
    try:
        for path in ("/", "/connected/github"):
            policy = Api(world, host).get(path, sub=None).headers["content-security-policy"]
            assert directives(policy)["connect-src"] == [
                "'self'",
                "https://id.example/pool/",
                "https://streams.example/live/",
                *sources.split(),
            ]
    finally:
        host.close()


def test_page_to_which_services_send_users_back_is_the_console_and_is_kept_nowhere(
    api: Api,
) -> None:
    """The address has a code in it, which makes its reader the user of an account."""
    answer = api.get("/connected/github?code=c0de&state=s&utm_source=x", sub=None)
    page = api.get("/", sub=None)
    files = page.body.replace('"console/', '"../console/')
    assert (answer.status, answer.body) == (200, files)
    assert answer.headers["cache-control"] == "no-store"
    assert "etag" not in answer.headers
    assert answer.headers["referrer-policy"] == "no-referrer"
    for name in ("content-security-policy", "x-content-type-options", "content-type"):
        assert answer.headers[name] == page.headers[name]
    assert "c0de" not in answer.body


def test_page_to_which_services_send_users_back_takes_nothing_but_get(api: Api) -> None:
    assert api.post("/connected/github", {"code": "c"}, sub=None).status in (401, 405)


def test_page_names_no_other_host(api: Api) -> None:
    assert "//" not in api.get("/", sub=None).body


def test_everything_that_the_page_names_is_there_and_kept_for_good(api: Api) -> None:
    named = re.findall(r'(?:href|src)="(console/[^"]+)"', api.get("/", sub=None).body)
    browser = {"Accept": "text/html"}
    of_links = re.findall(
        r'(?:href|src)="\.\./(console/[^"]+)"', api.get("/decide/x", sub=None, headers=browser).body
    )
    assert len({*named, *of_links}) == len(assets())
    for path in (*named, *of_links):
        answer = api.get(f"/{path}", sub=None)
        assert answer.status == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    imported = set(re.findall(r'from "\./([\w.]+)"', assets()["app.js"].text))
    assert imported == set(LIBRARIES)
    imported = set(re.findall(r'from "\./([\w.]+)"', assets()["decide.js"].text))
    assert imported == set(LIBRARIES) - {"marked.esm.js"}


def test_page_of_the_release_before_gets_files_that_it_does_not_keep(api: Api) -> None:
    answer = api.get("/console/0123456789abcdef/app.js", sub=None)
    assert answer.status == 200
    assert "immutable" not in answer.headers["cache-control"]


def test_whole_page_is_small() -> None:
    sizes = {name: len(gzip.compress(a.text.encode())) for name, a in assets().items()}
    assert sum(size for name, size in sizes.items() if name != "decide.js") < MAX_GZIPPED
    # A link is opened on a phone, far from Wi-Fi.
    loaded = ("decide.js", "console.css", "preact.mjs", "hooks.mjs", "htm.mjs")
    assert sum(sizes[name] for name in loaded) < MAX_GZIPPED_LINK


def test_every_module_is_in_the_page() -> None:
    assert {name for name, _ in sources()} == {*MODULES, *DECIDE_MODULES}
    assert set(DECIDE_MODULES) - set(MODULES) == {"decide"}


def test_names_are_unique_among_the_modules() -> None:
    names = [(found, name) for name, text in sources() for found in _NAME.findall(text)]
    seen: dict[str, str] = {}
    for found, name in names:
        assert found not in seen, f"{found} of {name}.js is in {seen[found]}.js, too"
        seen[found] = name


def test_texts_are_in_one_file() -> None:
    for name, text in sources():
        if name != "strings":
            markup = re.findall(r">\s*([A-Z][a-z]+ [a-z]+[^<>${}`]*)<", text)
            assert markup == [], f"{name}.js has texts of its own"


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_are_as_they_were_published(name: str) -> None:
    stated = dict(_ROW.findall((FOLDER / "vendor" / "README.md").read_text(encoding="utf-8")))
    text = assets()[name].text
    if name == "hooks.mjs":
        text = text.replace('from"./preact.mjs"', 'from"preact"')
    assert hashlib.sha256(text.encode()).hexdigest() == stated[name]
