"""The floor of a turn: the same work by hand, without durability, streams, limits or isolation.

`python tests/benchmarks/floor.py DSN MODEL_URL TURNS` reads 20 messages, asks the model, runs the tool, asks
again, and writes four messages: by httpx2 and psycopg, in one process. It prints `{"cpu_ms", "rss_mb"}`."""

import asyncio
import json
import sys
import time
from typing import Any

import httpx2
import psutil
import psycopg

WARM_UP = 10
_TABLE = """create table if not exists bench_floor (thread text, n bigserial, message jsonb,
primary key (thread, n))"""
_READ = "select message from bench_floor where thread = 't' order by n desc limit 20"
_WRITE = "insert into bench_floor (thread, message) values ('t', %s)"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather for a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


async def turn(database: psycopg.AsyncConnection[Any], model: httpx2.AsyncClient) -> None:
    """One turn: two reads and writes of the database, two of the model."""
    rows = await (await database.execute(_READ)).fetchall()
    history = [message for (message,) in reversed(rows)]
    fresh: list[dict[str, Any]] = [{"role": "user", "content": "How is the weather in Paris?"}]
    while len(fresh) < 4:
        body = {"model": "floor", "messages": [*history, *fresh], "tools": [TOOL]}
        answer = (await model.post("/chat/completions", json=body)).json()
        message = answer["choices"][0]["message"]
        fresh.append(message)
        for call in message.get("tool_calls") or ():
            json.loads(call["function"]["arguments"])
            fresh.append({"role": "tool", "tool_call_id": call["id"], "content": "Sunny, 21 C."})
    async with database.cursor() as cursor:
        await cursor.executemany(_WRITE, [(json.dumps(message),) for message in fresh])


async def main(dsn: str, url: str, turns: int) -> None:
    async with (
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as database,
        httpx2.AsyncClient(base_url=url, timeout=30, trust_env=False) as model,
    ):
        await database.execute(_TABLE)
        await database.execute("truncate bench_floor")
        for _ in range(WARM_UP):
            await turn(database, model)
        began = time.process_time()
        for _ in range(turns):
            await turn(database, model)
        cpu_ms = (time.process_time() - began) * 1_000 / turns
    rss = psutil.Process().memory_info().rss / 2**20
    print(json.dumps({"cpu_ms": cpu_ms, "rss_mb": rss}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
