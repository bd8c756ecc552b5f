"""A bench with people to whom links are sent."""

from dataclasses import replace
from typing import Any

from layover.adapters.journal.deliveries import TableDecisionLinks
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.journal import in_memory_journal
from layover.inmemory.table import InMemoryTable
from layover.plugins.people.links import make_link
from layover.ports.channels import ChannelPorts
from layover.values.channels import Channels, Person
from layover.values.decision import ApprovalRule
from layover.values.runs.run import SuspensionKind
from layover.values.runs.views import OpenApproval, Run
from support.worlds.services import ANN, ServiceBench

BASE_URL = "https://api.example.com"
ANNA = Person(id=ANN, mail="ann@example.com")
BEA = Person(id="sub-bea", mail="bea@example.com", groups=frozenset({"finance"}))
CARL = Person(id="sub-carl", mail="carl@example.com", groups=frozenset({"finance", "ops"}))
DORA = Person(id="sub-dora", mail="dora@example.com", groups=frozenset({"sales"}))
FINANCE = ApprovalRule(by=("finance",))


class LinkedBench(ServiceBench):
    """A world with people, whose calls they decide by links."""

    def __init__(self) -> None:
        super().__init__()
        table = InMemoryTable()
        self.journal = in_memory_journal(self.clock, InMemoryBlobs(), table=table)
        self.runtime = self._runtime()
        self.links = TableDecisionLinks(table, self.clock)
        self.configure()

    def configure(self, *people: Person, sign_in: bool = False) -> None:
        """Deploy another configuration of people."""
        config = Channels(people=people or (ANNA, BEA, CARL, DORA), link_sign_in=sign_in)
        channels = ChannelPorts(config=config, links=self.links, base_url=BASE_URL)
        self.runtime = replace(self.runtime, channels=channels)

    async def open_call(self, run: Run) -> OpenApproval:
        """The waiting call `c1` of a run, as lists show it."""
        page = await self.journal.decisions.page_pending(ANN, run.thread_id, 20, None)
        return next(item for item in page.items if item.run_id == run.id)

    async def asked(
        self,
        rule: ApprovalRule | None = FINANCE,
        kind: SuspensionKind = SuspensionKind.APPROVAL,
        **options: Any,
    ) -> tuple[Run, OpenApproval]:
        """A run of ANN's whose call waits, with a branch that can be woken."""
        run, call = await self.suspended(kind, approval=rule, **options)
        await self.token(call)
        return run, await self.open_call(run)

    async def path(self, run: Run, call: OpenApproval, person: Person = BEA) -> str:
        """The path of a new link."""
        url = await make_link(self.runtime, person, ANN, call)
        assert url is not None
        assert url.startswith(f"{BASE_URL}/decide/")
        return url.removeprefix(BASE_URL)
