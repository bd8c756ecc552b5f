"""A web page in a browser of this machine asks every port that the runner opens, as browsers let it."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from layover.desk.local.aws.emulator import BUCKET_NAME
from layover.desk.local.http.programs import ForPrograms
from layover.desk.local.http.server import HttpServer
from layover.desk.local.model.server import create_app

from .conftest import Served

HOSTILE = "https://evil.example"
SIMPLE = {"Content-Type": "text/plain"}
"""A browser sends such a request without asking first."""
PAGES: list[dict[str, str]] = [
    {"Origin": HOSTILE},
    {"Origin": "null"},
    {"Origin": "http://localhost:3000"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": HOSTILE, "Sec-Fetch-Site": "cross-site"},
]
"""What a browser adds to the requests of a page, or of an address that a person opened."""
INVOKE = "/2015-03-31/functions/turn/invocations"
REBOUND = ("evil.example", "127.0.0.1.evil.example", "127.0.0.1", "127.0.0.1:1", "localhost:1")
"""Names that lead to this machine, and ports that are not the asked one's."""


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=30, trust_env=False, verify=False) as client:
        yield client


@dataclass(frozen=True)
class Environment:
    """A warm environment: its Runtime API's address, with the path that only it knows."""

    variables: dict[str, str]

    @property
    def runtime_api(self) -> str:
        return f"http://{self.variables['AWS_LAMBDA_RUNTIME_API']}"

    @property
    def port(self) -> str:
        """The same without the path, as a page would guess it."""
        return self.runtime_api.rpartition("/")[0]


@pytest.fixture
async def environment(served: Served) -> Environment:
    result = await served.runner.functions.invoke("turn", b'{"variables": true}')
    return Environment(json.loads(result.payload))


def is_without_cors(answer: httpx2.Response) -> bool:
    return not any(name.lower().startswith("access-control-") for name in answer.headers)


def credential(served: Served) -> str:
    key = served.runner.aws.access_key
    return f"AWS4-HMAC-SHA256 Credential={key.id}/20260101/us-east-1/s3/aws4_request, Signature=0"


@pytest.mark.parametrize("page", PAGES, ids=str)
@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
async def test_page_invokes_no_function(
    served: Served, http: httpx2.AsyncClient, page: dict[str, str], signed: bool
) -> None:
    url = served.runner.aws.endpoint_url + INVOKE
    headers = SIMPLE | page | ({"Authorization": credential(served)} if signed else {})
    answer = await http.post(url, content=b'{"record":"page"}', headers=headers)
    assert answer.status_code == 403
    assert is_without_cors(answer)
    assert served.lines("page") == []


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer dev:ann",
        "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/s3/aws4_request, Signature=0",
        "AWS4-HMAC-SHA256 Credential=/20260101/us-east-1/s3/aws4_request, Signature=0",
        "AWS4-HMAC-SHA256 Credential=" + "A" * 10_000,
        "Credential=é/1",
    ],
    ids=lambda text: text[:40],
)
@pytest.mark.parametrize(
    ("method", "path", "target"),
    [
        ("POST", INVOKE, ""),
        ("POST", "/@connections/abc", ""),
        ("POST", "/", "DynamoDB_20120810.ListTables"),
        ("POST", "/", "AWSStepFunctions.ListStateMachines"),
        ("POST", "/", "AWSEvents.PutEvents"),
        ("GET", f"/{BUCKET_NAME}?list-type=2", ""),
        ("GET", "/", ""),
        ("HEAD", f"/{BUCKET_NAME}", ""),
        ("PUT", f"/{BUCKET_NAME}/a", ""),
        ("POST", "/moto-api/reset", ""),
    ],
)
async def test_request_without_the_runners_key_reaches_no_service_of_aws(
    served: Served,
    http: httpx2.AsyncClient,
    authorization: str,
    method: str,
    path: str,
    target: str,
) -> None:
    headers = SIMPLE | ({"X-Amz-Target": target} if target else {})
    if authorization:
        headers["Authorization"] = authorization
    sent = httpx2.Request(
        method,
        served.runner.aws.endpoint_url + path,
        headers=[(name.encode(), value.encode()) for name, value in headers.items()],
        content=b"{}",
    )
    answer = await http.send(sent)
    assert answer.status_code == 403
    assert is_without_cors(answer)


@pytest.mark.parametrize("page", PAGES, ids=str)
async def test_page_lists_no_bucket(
    served: Served, http: httpx2.AsyncClient, page: dict[str, str]
) -> None:
    url = f"{served.runner.aws.endpoint_url}/{BUCKET_NAME}?list-type=2"
    answer = await http.get(url, headers=page)
    assert answer.status_code == 403
    assert is_without_cors(answer)


@pytest.mark.parametrize("path", ["/", f"/{BUCKET_NAME}/a", INVOKE, "/moto-api/reset"])
async def test_preflight_of_a_page_is_refused(
    served: Served, http: httpx2.AsyncClient, path: str
) -> None:
    asked = {"Access-Control-Request-Method": "PUT", "Origin": HOSTILE}
    asked["Access-Control-Request-Headers"] = "authorization,x-amz-target"
    answer = await http.options(served.runner.aws.endpoint_url + path, headers=asked)
    assert answer.status_code == 403
    assert is_without_cors(answer)


@pytest.mark.parametrize(
    "path", ["/moto-api/reset", "/%6Doto-api/reset", "/moto-api/", "/moto-api"]
)
async def test_motos_own_api_is_not_there_for_the_runners_key_either(
    served: Served, http: httpx2.AsyncClient, path: str
) -> None:
    put, where = served.client("s3").put_object, {"Bucket": BUCKET_NAME, "Key": "stays"}
    put(**where, Body=b"here")
    headers = {"Authorization": credential(served)}
    answer = await http.post(served.runner.aws.endpoint_url + path, headers=headers)
    assert answer.status_code == 404
    assert served.client("s3").get_object(**where)["Body"].read() == b"here"


@pytest.mark.parametrize("host", REBOUND)
async def test_name_and_port_of_another_host_reach_no_service_of_aws(
    served: Served, http: httpx2.AsyncClient, host: str
) -> None:
    headers = {"Host": host, "Authorization": credential(served)}
    url = served.runner.aws.endpoint_url
    answer = await http.get(f"{url}/{BUCKET_NAME}?list-type=2", headers=headers)
    assert answer.status_code == 421


async def test_key_of_another_runner_is_refused(served: Served) -> None:
    from botocore.exceptions import ClientError

    from layover.desk.local.aws.access_key import make_access_key
    from layover.desk.local.aws.clients import make_client

    calls: dict[str, dict[str, str]] = {
        "list_tables": {},
        "list_buckets": {},
        "invoke": {"FunctionName": "turn"},
    }
    for service, (call, arguments) in zip(("dynamodb", "s3", "lambda"), calls.items(), strict=True):
        client = make_client(service, served.runner.aws.endpoint_url, make_access_key())
        with pytest.raises(ClientError, match="key is not this runner's") as refused:
            getattr(client, call)(**arguments)
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


# The Runtime API.


@pytest.mark.parametrize("page", PAGES, ids=str)
@pytest.mark.parametrize("known", [False, True], ids=["guessed", "known"])
async def test_page_takes_no_event_of_a_function(
    served: Served,
    environment: Environment,
    http: httpx2.AsyncClient,
    page: dict[str, str],
    known: bool,
) -> None:
    base = environment.runtime_api if known else environment.port
    runtime = f"{base}/2018-06-01/runtime"
    taken = await http.get(f"{runtime}/invocation/next", headers=page)
    failed = await http.post(f"{runtime}/init/error", content=b"{}", headers=SIMPLE | page)
    assert (taken.status_code, failed.status_code) == (403, 403)
    assert is_without_cors(taken)
    assert await pid_of_turn(served) == await pid_of_turn(served)


@pytest.mark.parametrize("path", ["", "/x", "/" + "0" * 32])
async def test_program_that_does_not_know_the_path_takes_no_event(
    environment: Environment, http: httpx2.AsyncClient, path: str
) -> None:
    runtime = f"{environment.port}{path}/2018-06-01/runtime"
    assert (await http.get(f"{runtime}/invocation/next")).status_code == 403
    for rest in ("init/error", "invocation/1/response", "invocation/1/error"):
        assert (await http.post(f"{runtime}/{rest}", content=b"{}")).status_code == 403


@pytest.mark.parametrize("host", REBOUND)
async def test_name_and_port_of_another_host_reach_no_runtime_api(
    environment: Environment, http: httpx2.AsyncClient, host: str
) -> None:
    url = f"{environment.runtime_api}/2018-06-01/runtime/invocation/next"
    assert (await http.get(url, headers={"Host": host})).status_code == 421


async def pid_of_turn(served: Served) -> int:
    result = await served.runner.functions.invoke("turn", b"{}")
    return int(json.loads(result.payload)["pid"])


# The public port.


@pytest.mark.parametrize("origin", [HOSTILE, "null", "http://localhost.evil.example"])
@pytest.mark.parametrize("path", ["/healthz", "/threads", "/_local/services"])
async def test_page_of_another_host_is_refused_by_the_public_port(
    served: Served, http: httpx2.AsyncClient, origin: str, path: str
) -> None:
    headers = {"Origin": origin, "Authorization": "Bearer dev:ann", "X-Layover-Local": "1"}
    for answer in (
        await http.get(served.runner.url + path, headers=headers),
        await http.post(served.runner.url + path, headers=headers | SIMPLE, content=b"{}"),
        await http.options(
            served.runner.url + path,
            headers={"Origin": origin, "Access-Control-Request-Method": "POST"},
        ),
    ):
        assert answer.status_code == 403
        assert is_without_cors(answer)


@pytest.mark.parametrize("page", PAGES, ids=str)
async def test_runners_own_routes_answer_no_page(
    served: Served, http: httpx2.AsyncClient, page: dict[str, str]
) -> None:
    headers = page | {"X-Layover-Local": "1"}
    answer = await http.get(f"{served.runner.url}/_local/services", headers=headers)
    assert answer.status_code == 403
    assert is_without_cors(answer)


async def test_console_and_links_to_it_are_answered(
    served: Served, http: httpx2.AsyncClient
) -> None:
    """A browser tells the origin of a form or a `fetch`, and of a followed link only the kind of site."""
    own = {"Origin": served.runner.url, "Sec-Fetch-Site": "same-origin"}
    ann = {"Authorization": "Bearer dev:ann"}
    assert (await http.post(f"{served.runner.url}/x", headers=own | ann)).status_code == 200
    for link in ("none", "cross-site"):
        headers = {"Sec-Fetch-Site": link, "Sec-Fetch-Mode": "navigate"}
        answer = await http.get(f"{served.runner.url}/healthz", headers=headers)
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("origin", "is_refused"),
    [(HOSTILE, True), ("null", True), ("http://localhost:3000", False), (None, False)],
)
async def test_page_of_another_host_opens_no_socket(
    served: Served, http: httpx2.AsyncClient, origin: str | None, is_refused: bool
) -> None:
    """A browser asks for no permission before it opens one. There is no function for it here: 502."""
    handshake = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    handshake["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    headers = handshake | ({"Origin": origin} if origin else {})
    answer = await http.get(f"{served.runner.url}/socket?ticket=x", headers=headers)
    assert answer.status_code == (403 if is_refused else 502)


# Files, which a page puts and gets at S3.


def presigned(served: Served, operation: str, **more: Any) -> str:
    where = {"Bucket": BUCKET_NAME, "Key": "u/h/files/a b.txt", **more}
    url: str = served.signing().generate_presigned_url(operation, Params=where)
    return url


async def test_page_puts_and_gets_a_file_at_a_presigned_url(
    served: Served, http: httpx2.AsyncClient
) -> None:
    page = {"Origin": "http://localhost:8787", "Sec-Fetch-Site": "same-site"}
    up = presigned(served, "put_object", ContentType="text/plain", ContentLength=4)
    asked = {
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "content-type",
    }
    preflight = await http.options(up, headers=page | asked)
    assert (preflight.status_code, preflight.content) == (200, b"")
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "PUT" in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-allow-headers"] == "content-type"
    sent = await http.put(up, content=b"text", headers=page | SIMPLE)
    assert sent.status_code == 200
    got = await http.get(presigned(served, "get_object"), headers=page)
    assert got.content == b"text"
    for answer in (sent, got):
        assert answer.headers.get_list("access-control-allow-origin") == ["*"]


async def test_presigned_url_opens_no_other_object_operation_or_service(
    served: Served, http: httpx2.AsyncClient
) -> None:
    page = {"Origin": HOSTILE} | SIMPLE
    served.client("s3").put_object(Bucket=BUCKET_NAME, Key="u/h/files/other", Body=b"secret")
    base, _, query = presigned(served, "get_object").partition("?")
    address = served.runner.aws.endpoint_url
    other = base.rpartition("/")[0] + "/other"
    for method, url in (
        ("GET", f"{other}?{query}"),
        ("GET", f"{address}/{BUCKET_NAME}?list-type=2&{query}"),
        ("PUT", f"{base}?{query}"),
        ("DELETE", f"{base}?{query}"),
        ("POST", f"{address}{INVOKE}?{query}"),
        ("POST", f"{address}/@connections/abc?{query}"),
        ("POST", f"{address}/moto-api/reset?{query}"),
    ):
        answer = await http.request(method, url, headers=page, content=b'{"record":"page"}')
        assert answer.status_code in (403, 404), url
        assert b"secret" not in answer.content
    target = {"X-Amz-Target": "DynamoDB_20120810.ListTables"}
    assert (await http.post(f"{address}/?{query}", headers=target)).status_code == 403
    assert served.lines("page") == []


async def test_presigned_url_ends_with_its_time(served: Served, http: httpx2.AsyncClient) -> None:
    where = {"Bucket": BUCKET_NAME, "Key": "late"}
    served.client("s3").put_object(**where, Body=b"text")
    for client in (served.client("s3"), served.signing()):
        url = client.generate_presigned_url("get_object", Params=where, ExpiresIn=-1)
        assert (await http.get(url)).status_code == 403


@pytest.mark.parametrize("changed", ["Signature=AAAA", "Expires=9999999999"])
async def test_url_that_is_signed_in_the_older_way_is_checked_too(
    served: Served, http: httpx2.AsyncClient, changed: str
) -> None:
    """boto3 signs URLs so unless it is told otherwise."""
    where = {"Bucket": BUCKET_NAME, "Key": "a b"}
    served.client("s3").put_object(**where, Body=b"text")
    url = served.client("s3").generate_presigned_url("get_object", Params=where)
    assert "AWSAccessKeyId=" in url
    assert (await http.get(url)).content == b"text"
    assert (await http.get(f"{url}&{changed}")).status_code == 403


# The stand-in for a model.


@pytest.fixture
async def model() -> AsyncIterator[str]:
    server = HttpServer(ForPrograms(create_app(), "sesame"))
    await server.start()
    yield f"{server.url}/v1"
    await server.stop()


@pytest.mark.parametrize("page", PAGES, ids=str)
async def test_page_asks_no_stand_in_model(
    http: httpx2.AsyncClient, model: str, page: dict[str, str]
) -> None:
    headers = SIMPLE | page | {"Authorization": "Bearer sesame"}
    body = b'{"messages":[{"role":"user","content":"hi"}]}'
    answer = await http.post(f"{model}/chat/completions", content=body, headers=headers)
    assert answer.status_code == 403
    assert (await http.get(f"{model}/models", headers=headers)).status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer stand-in"}, 401),
        ({"Authorization": "Bearer sesame", "Host": "evil.example"}, 421),
        ({"Authorization": "Bearer sesame"}, 200),
    ],
    ids=str,
)
async def test_stand_in_model_answers_its_key_and_its_host(
    http: httpx2.AsyncClient, model: str, headers: dict[str, str], status: int
) -> None:
    assert (await http.get(f"{model}/models", headers=headers)).status_code == status
