"""Presigned uploads as S3 takes them: with the length and the type that were signed. moto takes any."""

import hmac
from typing import Any
from urllib.parse import parse_qs, quote

from layover.local.functions.invocation import REGION

_KEY = "local"
"""Access key and secret of the functions; signatures of other keys are not checked here."""


def is_as_signed(environ: dict[str, Any]) -> bool:
    """Return whether a request has the headers that were signed: False for a PUT that a function presigned
    with others."""
    query = environ.get("QUERY_STRING", "")
    parameters = {name: values[0] for name, values in parse_qs(query).items()}
    signature = parameters.get("X-Amz-Signature")
    is_ours = parameters.get("X-Amz-Credential", "").startswith(f"{_KEY}/")
    if environ["REQUEST_METHOD"] != "PUT" or signature is None or not is_ours:
        return True
    from botocore.auth import S3SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    path = quote(environ["PATH_INFO"].encode("latin-1", "replace"), safe="/-_.~")
    unsigned_query = "&".join(p for p in query.split("&") if not p.startswith("X-Amz-Signature="))
    header_names = parameters.get("X-Amz-SignedHeaders", "").split(";")
    request = AWSRequest(
        method="PUT",
        url=f"http://{environ.get('HTTP_HOST', '')}{path}?{unsigned_query}",
        headers={name: _header(environ, name) for name in header_names},
    )
    request.context["timestamp"] = parameters.get("X-Amz-Date", "")
    auth = S3SigV4QueryAuth(Credentials(_KEY, _KEY), "s3", REGION)
    expected_signature = auth.signature(
        auth.string_to_sign(request, auth.canonical_request(request)), request
    )
    return hmac.compare_digest(expected_signature, signature)


def _header(environ: dict[str, Any], name: str) -> str:
    variable = name.upper().replace("-", "_")
    plain = variable in ("CONTENT_TYPE", "CONTENT_LENGTH")
    return str(environ.get(variable if plain else f"HTTP_{variable}") or "")
