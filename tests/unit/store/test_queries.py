"""Queries of the Postgres adapter, and the columns that they have in common."""

import re
from importlib.resources import files

import pytest

from layover.adapters.store.postgres import queries

SQL = files("layover.adapters.store.postgres").joinpath("sql")
TEXTS = {file.name: file.read_text("utf-8") for file in SQL.iterdir()}


@pytest.mark.parametrize("name", queries.column_lists())
def test_a_list_of_columns_stands_for_what_would_be_written_twice(name: str) -> None:
    said = sum(text.count(f"{{{name}") + text.count(f".{name}") for text in TEXTS.values())
    assert said > 1


def test_each_form_of_a_list_is_a_piece_of_sql() -> None:
    upsert = queries.load("threads.sql")["upsert_thread"].sql.decode()
    names = [column.split()[0] for column in queries.column_lists()["threads"]]
    assert f"(id, agent, title, {', '.join(names)}, created_at, updated_at)" in upsert
    assert f"{', '.join(f'{n} = excluded.{n}' for n in names)}, updated_at" in upsert
    assert f"(t.title, t.agent, {', '.join(f't.{n}' for n in names)})" in upsert
    assert (
        "title = null, metadata = default" in queries.load("erase.sql")["bury_thread"].sql.decode()
    )
    usage = queries.load("personal.sql")["usage_by_day"].sql.decode()
    assert "sum(u.reasoning_tokens) as reasoning_tokens," in usage
    attempts = queries.load("personal.sql")["stored_attempts"].sql.decode()
    assert "'task', i.task, 'attempt', i.attempt, 'action', i.action" in attempts


def test_a_parameter_of_a_list_keeps_its_type() -> None:
    upsert = queries.load("threads.sql")["upsert_thread"]
    assert "metadata" in upsert.parameters
    assert f"${upsert.parameters.index('metadata') + 1}::jsonb".encode() in upsert.sql


def test_every_placeholder_is_replaced() -> None:
    names = [name for name, text in TEXTS.items() if "-- name: " in text]
    loaded = [query for name in names for query in queries.load(name).values()]
    assert [q.name for q in loaded if re.search(rb"\{[\w.:]+\}", q.sql)] == []
