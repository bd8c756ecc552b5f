"""The calls of a reply in the making, where the API numbers its blocks: each piece names its call."""

from layover.plugins.models import call_ids
from layover.plugins.models.call_pieces import whole_arguments
from layover.plugins.models.text import Text
from layover.ports import Ids
from layover.values.prompt import Delta, RequestedCall
from layover.values.text import sanitise


class OpenCall:
    """A call whose arguments arrive. `at`: its place among the reply's calls."""

    def __init__(self, at: int, id: str, name: str) -> None:
        self._at = at
        self.id = id
        self.name = name
        self.args = Text()

    def delta(self, text: str) -> Delta:
        """Return what followers are told of a new piece of the arguments."""
        return Delta(
            kind="tool-call",
            text=text,
            call=self._at,
            tool_call_id=self.id,
            tool_name=self.name,
        )

    def whole(self, *, cut: bool) -> RequestedCall:
        """Return the call. `cut`: the reply's limit ended it, perhaps within the arguments."""
        args = whole_arguments(self.args.whole(), cut=cut)
        state = call_ids.state_of(self.id)
        return RequestedCall(id=self.id, name=self.name, args=args, state=state)


class OpenCalls:
    """The calls of one reply."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._calls: list[OpenCall] = []

    def __len__(self) -> int:
        return len(self._calls)

    def open(self, given_id: object, name: str) -> OpenCall:
        """Begin a call. One without an id of the provider's gets a new one."""
        id = sanitise(str(given_id or "")) or self._ids.new("call")
        self._calls.append(OpenCall(len(self._calls), id, sanitise(name)))
        return self._calls[-1]

    def whole(self, *, cut: bool) -> tuple[RequestedCall, ...]:
        """Return the calls. `cut`: the reply's limit ended it, perhaps within the last one."""
        last = self._calls[-1:]
        return tuple(call.whole(cut=cut and call in last) for call in self._calls)
