"""The contract of tables as somebody else runs it: in a pytest that has none of our fixtures and settings."""

import pytest

from support.strangers import ROOT, Outcomes, outcomes_of

HEAD = """
import pytest
from examples.sqlite_table import SqliteTable
from layover.testing.contracts import TableContract
from support.worlds import broken_tables
"""
TESTS = """
class Test{name}(TableContract):
    @pytest.fixture
    def table(self):
        table = {table}()
        yield table
        table.close()
"""
CAUGHT = {
    "Torn": "test_failed_transaction_writes_nothing_and_names_every_failed_condition",
    "Forgetful": "test_transaction_repeated_with_its_token_happens_once",
    "Hasty": "test_one_of_racing_conditional_writes_wins",
    "Silent": "test_failed_condition_writes_nothing_and_answers_the_item_as_it_is",
    "Exclusive": "test_query_reads_a_range_of_one_partition_in_both_directions",
    "Stale": "test_indexes_follow_every_change_of_an_item",
}
"""Broken tables, with a test that has to fail."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    tables = {"Sound": "SqliteTable", **{name: f"broken_tables.{name}" for name in CAUGHT}}
    classes = [TESTS.format(name=name, table=table) for name, table in tables.items()]
    folder = tmp_path_factory.mktemp("stranger")
    return outcomes_of(folder, HEAD + "".join(classes), ROOT / "tests")


@pytest.mark.parametrize(("name", "test"), CAUGHT.items(), ids=CAUGHT)
def test_table_that_breaks_a_promise_is_caught(outcomes: Outcomes, name: str, test: str) -> None:
    failed = {case.partition("[")[0] for case, message in outcomes[name].items() if message}
    assert test in failed
    assert failed < {case.partition("[")[0] for case in outcomes["Sound"]}


def test_table_that_keeps_them_all_passes(outcomes: Outcomes) -> None:
    sound = outcomes["Sound"]
    assert len(sound) > 90
    assert {case: message for case, message in sound.items() if message} == {}


def test_failure_shows_both_sides_of_the_comparison(outcomes: Outcomes) -> None:
    message = outcomes["Exclusive"][CAUGHT["Exclusive"]]
    assert message.startswith("AssertionError: assert ['B'] == ['B', 'C']")
