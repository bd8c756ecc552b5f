"""The console: its page, and the files that the page loads."""

from typing import Any

from aws_lambda_powertools.event_handler import Response

from functions.api.caching import cache_once
from functions.api.call import call_of, new_router
from functions.api.console import assets
from functions.api.console.policy import NOSNIFF, page_headers
from layover.errors import NotFound
from layover.values.deployment.access import CONNECTED

router = new_router()
_DOCS_LINK = '<link rel="help" href="docs">\n'
_ONE_MACHINE = "http://127.0.0.1:* http://localhost:*"
"""Hosts of files on one machine."""
_FOREVER = "max-age=31536000, immutable"
_PAGE = "text/html; charset=utf-8"


@router.get("/", include_in_schema=False)
def get_page() -> Response[str]:
    return cache_once(router, _PAGE, _text(), headers=_headers())


@router.get(f"{CONNECTED}/<connection>", include_in_schema=False)
def get_connected(connection: str) -> Response[str]:
    """The same page, at the addresses to which services send users back. Its query is a secret, so nothing
    keeps the answer or tells the address to others."""
    headers = {**_headers(), "Cache-Control": "no-store"}
    return Response(
        status_code=200, content_type=_PAGE, body=_text("../"), headers=headers, compress=True
    )


def _text(root: str = "") -> str:
    text = assets.page(root)
    settings = call_of(router).host.runtime().settings
    return text if settings.docs else text.replace(_DOCS_LINK, "")


def _headers() -> dict[str, Any]:
    settings = call_of(router).host.runtime().settings
    access, sources = settings.access, settings.page_sources
    # No host of others: whatever a text or a schema makes of the page, its token goes nowhere else.
    hosts = [f"{url.rstrip('/')}/" for url in (access.issuer, access.stream_url) if url]
    more = " ".join([*hosts, sources]) if access.issuer else _ONE_MACHINE
    return {**page_headers(f"'self' {more}".rstrip())}


@router.get("/console/<version>/<file>", include_in_schema=False)
def get_file(version: str, file: str) -> Response[str]:
    asset = assets.assets().get(file)
    if asset is None:
        raise NotFound("there is no such path")
    # A page of the previous release gets this release's files, but without permission to cache them.
    lifetime = _FOREVER if version == assets.version() else "max-age=0"
    return cache_once(
        router, asset.content_type, asset.text, lifetime=lifetime, headers={**NOSNIFF}
    )
