"""Log lines of a deployment: JSON, one each, with what they belong to."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from layover import logs
from layover.inmemory.model import say
from support.forks import Prepared, prepared
from support.worlds.runs import Ledger

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "layers" / "shared" / "python"
SCRIPT = """
import asyncio, logging, sys, types
# As Lambda does: a handler of the root logger, which writes plain text.
logging.basicConfig(stream=sys.stdout, format="plain %(message)s")
from layover import logs, wiring

logger = logging.getLogger("layover")

async def work(message, thread_id=None):
    if thread_id:
        logs.name(thread_id=thread_id)
    logger.debug("d: " + message)
    await asyncio.to_thread(logger.info, message)

@wiring.with_logging
def handler(event, context):
    return wiring.run(work(event["say"], event.get("thread_id")))

def invoke(number, **event):
    handler(event, types.SimpleNamespace(aws_request_id=f"lambda-{number}"))

"""


@pytest.fixture(scope="module")
def started() -> Iterator[Prepared]:
    """A process that has the script; the environment is a deployment's."""
    with prepared(SCRIPT, PYTHONPATH=f"{ROOT}:{LAYER}", LAYOVER_SERVICE="layover-dev") as process:
        yield process


Lines = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def lines(started: Prepared) -> Lines:
    """Return each line that code behind the script prints, which has to be JSON."""
    return lambda code, **variables: [
        json.loads(line) for line in started.printed(code, **variables)
    ]


def test_a_line_is_json_once_and_names_deployment_run_thread_and_request(lines: Lines) -> None:
    (line,) = lines("invoke(1, say='hello', run_id='run_1', thread_id='thread_1')")
    told = {key: line[key] for key in ("level", "message", "service", "run_id", "thread_id")}
    assert told == {
        "level": "INFO",
        "message": "hello",
        "service": "layover-dev",
        "run_id": "run_1",
        "thread_id": "thread_1",
    }
    assert (line["request_id"], line["function_request_id"]) == ("lambda-1", "lambda-1")


def test_ids_of_an_invocation_are_in_no_later_one(lines: Lines) -> None:
    first, second = lines(
        "invoke(1, say='one', run_id='run_1', thread_id='thread_1'); invoke(2, say='two')"
    )
    assert (first["run_id"], first["thread_id"]) == ("run_1", "thread_1")
    assert (second["message"], second["function_request_id"]) == ("two", "lambda-2")
    assert second.keys().isdisjoint({"run_id", "thread_id"})


def test_request_id_is_the_one_that_the_client_is_told(lines: Lines) -> None:
    (line,) = lines("invoke(1, say='hello', requestContext={'requestId': 'gateway-1'})")
    assert (line["request_id"], line["function_request_id"]) == ("gateway-1", "lambda-1")


@pytest.mark.parametrize(
    ("level", "said"), [("DEBUG", ["d: hello", "hello"]), ("INFO", ["hello"]), ("WARNING", [])]
)
def test_level_is_the_environments(lines: Lines, level: str, said: list[str]) -> None:
    found = lines("invoke(1, say='hello')", LAYOVER_LOG_LEVEL=level)
    assert [line["message"] for line in found] == said


def test_what_a_line_says_itself_wins(lines: Lines) -> None:
    code = "with logs.bind_ids(run_id='bound'): wiring._logging(); logger.info('x', extra={'run_id': 'own'})"
    assert [line["run_id"] for line in lines(code)] == ["own"]


def test_what_is_known_first_stays() -> None:
    """An agent that a tool asks in process is not what the invocation is about."""
    with logs.bind_ids(run_id="run_1"):
        logs.name(run_id="run_2", thread_id="thread_2")
        assert logs.bound_ids() == {"run_id": "run_1", "thread_id": "thread_2"}
    logs.name(run_id="run_3")
    assert logs.bound_ids() == {}


def test_request_to_the_api_that_fails_names_its_thread(started: Prepared) -> None:
    code = (
        "import types, functions.api.handler as h\n"
        "claims = {'sub': 'ann', 'scope': 'layover/use'}\n"
        "event = {'version': '2.0', 'rawPath': '/threads/thread_1', 'rawQueryString': '',\n"
        "    'headers': {}, 'requestContext': {'requestId': 'gateway-1', 'stage': '$default',\n"
        "    'authorizer': {'jwt': {'claims': claims}},\n"
        "    'http': {'method': 'GET', 'path': '/threads/thread_1'}}}\n"
        "h.wiring = types.SimpleNamespace(runtime=lambda: 1 / 0)\n"
        "h.handler(event, types.SimpleNamespace(aws_request_id='lambda-1'))\n"
    )
    line = json.loads(started.printed(code)[-1])
    assert (line["level"], line["message"]) == ("ERROR", "a request failed")
    assert (line["service"], line["thread_id"]) == ("layover-dev", "thread_1")
    assert (line["request_id"], line["function_request_id"]) == ("gateway-1", "lambda-1")


async def test_a_turn_names_its_thread() -> None:
    bench = Ledger().bench(say("hello"))
    run_id = await bench.start()
    with logs.bind_ids(run_id=run_id):
        await bench.turn(run_id)
        assert logs.bound_ids() == {"run_id": run_id, "thread_id": "t1"}
