"""Contracts of ports as tests to inherit: a store or a model of one's own passes what Layover's own pass.

Only tests import it: it needs pytest and pytest-asyncio, and is left out of the Lambda layer."""

import pytest

# Before they are imported: a failed assertion then shows both sides, as in a test module.
for _part in ("models", "reads", "refusals", "transactions", "writes"):
    pytest.register_assert_rewrite(f"{__name__}.{_part}")

from layover.testing.contracts.models import MakeModel, ModelContract, Planned  # noqa: E402
from layover.testing.contracts.reads import ReadContract  # noqa: E402
from layover.testing.contracts.refusals import TableRefusalContract  # noqa: E402
from layover.testing.contracts.transactions import TransactionContract  # noqa: E402
from layover.testing.contracts.writes import WriteContract  # noqa: E402

__all__ = ["MakeModel", "ModelContract", "Planned", "TableContract", "TableRefusalContract"]


class TableContract(WriteContract, TransactionContract, ReadContract):
    """Everything that the journal relies on in a table (`layover.ports.table.Table`), as tests.

        class TestMyTable(TableContract):
            @pytest.fixture
            def table(self) -> MyTable:
                return MyTable(...)

    The fixture `table` may be async and may give every test the same table: the fixture `pk`, which is here,
    gives each test its own partition. Tests read an index right after a write: a database whose
    indexes follow later answers them once they have caught up."""
