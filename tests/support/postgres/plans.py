"""A long thread written straight into the tables, and what a query reads of it."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection

from layover.adapters.store.postgres.queries import Query
from support.postgres.server import TestPostgres, fresh_owner, migrated


def filled(postgres: TestPostgres, script: str, values: Mapping[str, object] | None = None) -> str:
    """Run a script's statements (each ends in `;` and a line break) for a new owner; the owner."""
    owner = fresh_owner()
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", (owner,))
        for statement in script.split(";\n")[:-1]:
            used = {k: v for k, v in (values or {}).items() if f"%({k})s" in statement}
            connection.execute(statement.encode(), used or None)
    return owner


@dataclass(frozen=True)
class Planned:
    """A separate database with one owner's rows, because other tests' rows, and their order, would change
    what the planner knows."""

    postgres: TestPostgres
    owner: str

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[AsyncConnection[Any]]:
        """As the functions, for the owner."""
        async with await AsyncConnection.connect(self.postgres.runtime) as connection:
            await connection.execute(
                "select set_config('app.resource_id', %s, false)", [self.owner]
            )
            yield connection


def planned(
    cluster: TestPostgres,
    name: str,
    analyzed: bool,
    script: str,
    values: Mapping[str, object] | None = None,
) -> Planned:
    """A database that is filled by a script, with the planner's statistics or without any."""
    postgres = migrated(cluster, f"{name}_{'analyzed' if analyzed else 'unknown'}")
    owner = filled(postgres, script, values)
    if analyzed:
        analyze(postgres)
    return Planned(postgres, owner)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan's nodes."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


async def scans(
    connection: AsyncConnection[Any], query: Query, tables: tuple[str, ...], values: dict[str, Any]
) -> list[tuple[str, int]]:
    """Runs the query with its generic plan: node type, and rows looked at, of each scan of these tables."""
    await connection.execute("set plan_cache_mode = force_generic_plan")
    await connection.execute("deallocate all")
    await connection.execute(b"prepare q as " + query.sql)
    given = (values[p] for p in query.parameters)
    arguments = ", ".join("null" if v is None else f"'{v}'" for v in given)
    explain = f"explain (analyze, format json) execute q ({arguments})"
    rows = await (await connection.execute(explain.encode())).fetchall()
    found: list[tuple[str, int]] = []
    for node in nodes(rows[0][0][0]["Plan"]):
        if node.get("Relation Name") in tables and node["Node Type"] != "ModifyTable":
            complete = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            found.append((node["Node Type"], round(complete * node["Actual Loops"])))
    return found


def analyze(postgres: TestPostgres) -> None:
    """Give the planner its statistics."""
    with psycopg.connect(postgres.admin, autocommit=True) as connection:
        connection.execute("analyze")
