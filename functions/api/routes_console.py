"""The console: its page, and the files that the page loads."""

from aws_lambda_powertools.event_handler import Response

from functions.api.caching import cache_once
from functions.api.call import call_of, new_router
from functions.api.console import assets
from layover.errors import NotFound

router = new_router()
_DOCS_LINK = '<link rel="help" href="docs">\n'
_ONE_MACHINE = "'self' http://127.0.0.1:* http://localhost:*"
"""Hosts of files on one machine. On AWS, the hosts of the sign-in and the bucket have TLS."""
_FOREVER = "max-age=31536000, immutable"
_NOSNIFF = {"X-Content-Type-Options": "nosniff"}


@router.get("/", include_in_schema=False)
def get_page() -> Response[str]:
    settings = call_of(router).host.runtime().settings
    text = assets.page()
    if not settings.docs:
        text = text.replace(_DOCS_LINK, "")
    headers = {
        **_NOSNIFF,
        "Content-Security-Policy": _policy(
            "'self' https:" if settings.access.issuer else _ONE_MACHINE
        ),
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return cache_once(router, "text/html; charset=utf-8", text, headers=headers)


@router.get("/console/<version>/<file>", include_in_schema=False)
def get_file(version: str, file: str) -> Response[str]:
    asset = assets.assets().get(file)
    if asset is None:
        raise NotFound("there is no such path")
    # A page of the previous release gets this release's files, but without permission to cache them.
    lifetime = _FOREVER if version == assets.version() else "max-age=0"
    return cache_once(router, asset.content_type, asset.text, lifetime=lifetime, headers=_NOSNIFF)


def _policy(connects: str) -> str:
    """Return the page's policy: it runs only its own scripts, never turns text into markup, and may not be
    framed."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            f"connect-src {connects}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
