"""The database's refusals, in the words of the runtime."""

import pytest
from psycopg import errors

from layover.adapters.store.postgres.faults import ConnectionLost, of_statement
from layover.errors import NewerFormat, RetryableError


@pytest.mark.parametrize(
    "error",
    [
        errors.UndefinedTable(),
        errors.UndefinedColumn(),
        errors.UndefinedFunction(),
        errors.DatatypeMismatch(),
        errors.InvalidColumnReference(),
        errors.GeneratedAlways(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_functions_on_the_schema_of_another_release_wait_for_it(error: errors.Error) -> None:
    told = of_statement(error, "load_turn")
    assert isinstance(told, NewerFormat)
    assert isinstance(told, RetryableError)
    assert "does not fit load_turn of this release" in told.message
    assert told.ids == {"sqlstate": error.sqlstate}


@pytest.mark.parametrize(
    "error", [errors.SyntaxError(), errors.InsufficientPrivilege(), errors.NotNullViolation()]
)
def test_a_defect_stays_a_defect(error: errors.Error) -> None:
    assert of_statement(error, "load_turn") is error


def test_a_statement_that_was_prepared_before_a_migration_is_prepared_again() -> None:
    stale = errors.FeatureNotSupported("cached plan must not change result type")
    assert isinstance(of_statement(stale, "load_turn"), ConnectionLost)
    other = errors.FeatureNotSupported("cannot do that")
    assert of_statement(other, "load_turn") is other
