"""The headers of our pages: a page runs only its own scripts, never turns text into markup, and may not be
framed."""

NOSNIFF = {"X-Content-Type-Options": "nosniff"}


def page_headers(connects: str) -> dict[str, str]:
    """Return the headers of a page. `connects`: the sources that it may ask, as `connect-src` has them."""
    return {
        **NOSNIFF,
        "Content-Security-Policy": _policy(connects),
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
    }


def _policy(connects: str) -> str:
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
