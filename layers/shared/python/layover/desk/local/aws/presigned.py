"""Signatures of presigned URLs. S3 answers the one request that was signed, as long as its time lasts, and
refuses an upload of another length or type, on which the limits of files rely; moto takes any."""

import hmac
import time
from calendar import timegm
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from layover.desk.local.aws.access_key import AccessKey
from layover.desk.local.aws.wsgi import Environ
from layover.desk.local.functions.invocation import REGION

_ANSWERED = frozenset({"GET", "HEAD", "PUT"})
_STAMP = "%Y%m%dT%H%M%SZ"


def is_as_signed(environ: Environ, key: AccessKey) -> bool:
    """Return whether the request is the one that was signed with this key, in time. `environ` has the query
    of a presigned URL."""
    if environ["REQUEST_METHOD"] not in _ANSWERED:
        return False
    every = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    # A name that stands twice could be one thing for the signature and another one for moto.
    if any(len(values) > 1 for values in every.values()):
        return False
    parameters = {name: values[0] for name, values in every.items()}
    try:
        signature, expected = (
            _of_version_2(environ, parameters, key)
            if "AWSAccessKeyId" in parameters
            else _of_version_4(environ, parameters, key)
        )
    except (KeyError, ValueError):
        return False
    return hmac.compare_digest(expected.encode(), signature.encode())


def _of_version_4(
    environ: Environ, parameters: Mapping[str, str], key: AccessKey
) -> tuple[str, str]:
    """Return the signature and what it has to be. Raises KeyError and ValueError for an incomplete query, or
    one whose time is over."""
    from botocore.auth import S3SigV4QueryAuth

    start = timegm(time.strptime(parameters["X-Amz-Date"], _STAMP))
    _check_time(start + int(parameters["X-Amz-Expires"]))
    query = environ["QUERY_STRING"]
    unsigned_query = "&".join(p for p in query.split("&") if not p.startswith("X-Amz-Signature="))
    names = parameters["X-Amz-SignedHeaders"].split(";")
    request = _request(environ, unsigned_query, {name: _header(environ, name) for name in names})
    request.context["timestamp"] = parameters["X-Amz-Date"]
    auth = S3SigV4QueryAuth(_credentials(key), "s3", REGION)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return parameters["X-Amz-Signature"], auth.signature(text, request)


def _of_version_2(
    environ: Environ, parameters: Mapping[str, str], key: AccessKey
) -> tuple[str, str]:
    """Do the same for the older signatures, which boto3 makes unless it is told otherwise."""
    from botocore.auth import HmacV1QueryAuth

    _check_time(int(parameters["Expires"]))
    names = {"content-type", "content-md5"}
    names |= {n[5:].lower().replace("_", "-") for n in environ if n.startswith("HTTP_X_AMZ_")}
    headers = {name: value for name in names if (value := _header(environ, name))}
    request = _request(environ, environ["QUERY_STRING"], headers)
    auth: Any = HmacV1QueryAuth(_credentials(key))
    # In place of the date, the older signatures cover the time at which they end.
    auth._get_date = lambda: parameters["Expires"]
    expected: str = auth.get_signature(request.method, urlsplit(request.url), request.headers)
    return parameters["Signature"], expected


def _check_time(end: float) -> None:
    # The machine's clock, as botocore signs by it. The movable one does not count.
    if time.time() > end:
        raise ValueError("the URL's time is over")


def _request(environ: Environ, query: str, headers: Mapping[str, str]) -> Any:
    from botocore.awsrequest import AWSRequest

    path = quote(environ["PATH_INFO"].encode("latin-1", "replace"), safe="/-_.~")
    url = f"http://{environ.get('HTTP_HOST', '')}{path}?{query}"
    return AWSRequest(method=environ["REQUEST_METHOD"], url=url, headers=dict(headers))


def _credentials(key: AccessKey) -> Any:
    from botocore.credentials import Credentials

    return Credentials(key.id, key.secret)


def _header(environ: Environ, name: str) -> str:
    variable = name.upper().replace("-", "_")
    # CGI has two headers under their bare names (PEP 3333).
    plain = variable in ("CONTENT_TYPE", "CONTENT_LENGTH")
    return str(environ.get(variable if plain else f"HTTP_{variable}") or "")
