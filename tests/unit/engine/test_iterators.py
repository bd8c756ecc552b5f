"""Tools that return what can be read once: generators, maps, cursors."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from layover import Agent, tool
from layover.declare.tools.tool import AnyTool
from layover.inmemory.model import call, say
from layover.values.runs.run import Status
from support.worlds.runs import Bench, seen, told


def breaking() -> Iterator[int]:
    yield 1
    raise LookupError("no row 2")


def rows() -> Iterator[Any]:
    database = sqlite3.connect(":memory:")  # only its own thread may read it
    return database.execute("select 1, 'a' union select 2, 'b'")


MADE: dict[str, tuple[Callable[[], Any], Any]] = {
    "generator": (lambda: (n * n for n in range(3)), [0, 1, 4]),
    "map": (lambda: map(str, range(2)), ["0", "1"]),
    "filter": (lambda: filter(None, [0, 1]), [1]),
    "zip": (lambda: zip("ab", [1, 2], strict=True), [["a", 1], ["b", 2]]),
    "cursor": (rows, [[1, "a"], [2, "b"]]),
    "empty": (lambda: iter(()), []),
    "in a dict": (lambda: {"rows": map(abs, [-1]), "n": 1}, {"rows": [1], "n": 1}),
    "in a list": (lambda: [iter([1]), (iter([2]),)], [[1], [[2]]]),
    "of iterators": (lambda: (iter([n]) for n in range(2)), [[0], [1]]),
    "a list": (lambda: [1, {"a": (2,)}], [1, {"a": [2]}]),
    "nothing": (lambda: None, None),
}


def fetching(make: Callable[[], Any], *, is_async: bool, **options: Any) -> AnyTool:
    @tool(name="fetch", **options)
    async def on_loop() -> Any:
        """Fetch."""
        return make()

    @tool(name="fetch", **options)
    def in_thread() -> Any:
        """Fetch."""
        return make()

    return on_loop if is_async else in_thread


async def results_of(fetch: AnyTool) -> tuple[Any, str]:
    """The stored result, and what the model reads."""
    bench = Bench(Agent("helper", model="m", tools=[fetch]), [call("fetch"), say("done")])
    run = await bench.go()
    assert run.status is Status.SUCCESS
    return told(run.messages)[1][1], seen(bench.model.prompts[1])[0]


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_iterator_that_raises_is_a_tool_error(is_async: bool) -> None:
    stored, read = await results_of(fetching(breaking, is_async=is_async))
    assert stored == read == "LookupError: no row 2"


async def test_a_list_that_contains_itself_is_a_tool_error() -> None:
    loop: list[Any] = [iter([1])]
    loop.append(loop)
    _, read = await results_of(fetching(lambda: loop, is_async=False))
    assert read.startswith("ValueError: ")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("kind", MADE)
async def test_the_model_reads_what_is_stored(kind: str, is_async: bool) -> None:
    make, expected = MADE[kind]
    stored, read = await results_of(fetching(make, is_async=is_async))
    assert stored == expected
    assert json.loads(read) == expected


async def test_an_async_iterator_is_walked_too() -> None:
    async def numbers() -> AsyncIterator[int]:
        for n in range(3):
            yield n

    stored, read = await results_of(fetching(numbers, is_async=True))
    assert (stored, read) == ([0, 1, 2], "[0,1,2]")


async def test_those_who_shape_a_result_get_the_list() -> None:
    shaped = fetching(
        lambda: map(abs, [-1, -2]),
        is_async=False,
        to_model_output=lambda rows: f"{sum(rows)} of {len(rows)}",
        to_message=lambda rows: {"name": "rows", "data": rows},
    )
    stored, read = await results_of(shaped)
    assert (stored, read) == ([1, 2], "3 of 2")
