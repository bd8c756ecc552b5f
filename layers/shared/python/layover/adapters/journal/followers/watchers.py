"""The connections that follow a run, as far as one writer of its log knows them.

A subscription raises a number in META. Every transaction of a writer carries the number that it knows in its
condition on META, so it never misses a subscription and needs no extra request to find one. Between
transactions, the writer sees the number when it reads the cancel flag."""

from collections.abc import Sequence
from dataclasses import replace

from layover.keys import META, Keys
from layover.ports.sockets import EventSink
from layover.ports.table import Action, Item, TransactionFailed, all_of, same
from layover.values.runs.run import RunMeta


class Watchers:
    """The connections that one writer names to `sink` when there are new events."""

    def __init__(self, sink: EventSink, meta: RunMeta) -> None:
        self._sink = sink
        self._owner, self._run_id = meta.owner, meta.id
        self._pk = Keys(meta.owner).run(meta.id)
        self._number, self._connections = meta.subscribed, meta.sockets
        # An earlier writer may have died between its write and its delivery.
        self.notify_connections()

    @property
    def connections(self) -> frozenset[str]:
        """The connections that this writer knows."""
        return self._connections

    @property
    def has_none(self) -> bool:
        """True if no connection has followed the run so far."""
        return not self._number and not self._connections

    def notify_connections(self) -> None:
        """Notify the connections: the log has new events."""
        if self._connections:
            self._sink.notify(self._owner, self._run_id, self._connections)

    def update(self, item: Item) -> None:
        """Take over the connections of the present META."""
        number = int(item.get("subscribed", 0))
        is_new = number != self._number
        self._number, self._connections = number, frozenset(item.get("sockets", ()))
        if is_new:
            self.notify_connections()

    def with_condition(self, actions: Sequence[Action]) -> list[Action]:
        """Return the actions on the condition that no subscription has been added since."""
        unseen = same("subscribed", self._number or None)
        guarded: list[Action] = []
        for each in actions:
            if self._is_meta(each):
                when = unseen if each.when is None else all_of(each.when, unseen)
                guarded.append(replace(each, when=when))
            else:
                guarded.append(each)
        return guarded

    def learn(self, actions: Sequence[Action], failure: TransactionFailed) -> bool:
        """Return whether a new subscription made the transaction fail. If so, the same actions may pass
        now."""
        for index, old in failure.failed.items():
            if self._is_meta(actions[index]) and old is not None:
                # The number is unchanged, so another condition on META has failed, such as the epoch.
                if old.get("subscribed", 0) == self._number:
                    return False
                self.update(old)
                return True
        return False

    def _is_meta(self, action: Action) -> bool:
        return action.pk == self._pk and action.sk == META
