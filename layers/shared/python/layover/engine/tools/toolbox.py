"""The tools of one agent, as its calls name them: a call before its tool runs, and its outcome behind it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from layover.declare.tools.tool import AnyTool
from layover.engine.exact_calls import exact_call
from layover.engine.hooks.around_tools import AroundTools
from layover.engine.hooks.frame_hooks import FrameHooks
from layover.engine.outcomes import Ready, Settled, limit_output, not_found
from layover.engine.tools.call_limits import with_one_handoff, with_retries_counted, within_limit
from layover.engine.tools.execute import prepare
from layover.engine.work import RunWork
from layover.values.runs.run import CallRecord, Suspension


class Toolbox:
    """The agent's tools, and Layover's own that it has in addition (`built_in`)."""

    def __init__(self, work: RunWork, hooks: FrameHooks, built_in: Sequence[AnyTool] = ()) -> None:
        self._work = work
        self.tools: dict[str, AnyTool] = {t.name: t for t in (*work.agent.tools, *built_in)}
        self.hooks = AroundTools(hooks, self.prepare)

    def timeout(self, call: CallRecord) -> timedelta | None:
        """Return the time that the call's tool may take; None: it sets no limit, or there is no such tool."""
        tool = self.tools.get(call.tool_name)
        return tool.timeout if tool else None

    def ready(self, call: CallRecord) -> Ready | Settled:
        """Return what a begun call needs to go on, or the error that settles it."""
        return self.prepare(call, call.proposed if call.edited is None else call.edited)

    def prepare(self, call: CallRecord, args: Any) -> Ready | Settled:
        """Return what the call needs to run with these arguments, or the error that settles it."""
        if not call.offered:
            return not_found(call.tool_name)
        return self._limited(call, prepare(self.tools, call.tool_name, args))

    def exact(self, call: CallRecord) -> Ready | Settled | Suspension:
        """Return a decided call as the person saw it; the request to make again if code has changed it."""
        if not call.offered or call.tool_name not in self.tools:
            return not_found(call.tool_name)
        name, now = call.tool_name, self._work.clock.now()
        exact = exact_call(call, lambda args: prepare(self.tools, name, args), now)
        return exact if isinstance(exact, Suspension) else self._limited(call, exact)

    def _limited(self, call: CallRecord, ready: Ready | Settled) -> Ready | Settled:
        ready = within_limit(ready, self._work.state, call)
        return with_one_handoff(ready, self.tools, self._work.state, call)

    def edited_args(self, call: CallRecord, ready: Ready) -> dict[str, Any] | None:
        """Return the arguments as a person edited them; None if the edit changes nothing for the tool."""
        edited = call.edited
        if edited is None:
            return None
        own = self.prepare(call, call.proposed)
        same = isinstance(own, Ready) and own.args.as_dict() == ready.args.as_dict()
        return None if same else edited

    async def finish(self, call: CallRecord, ready: Ready, outcome: Settled) -> Settled:
        """Return the outcome of a call as hooks leave it, short enough for the model."""
        outcome = await self.hooks.after(call, ready, outcome)
        return await limit_output(outcome, call, self._work.run_files)

    def count_retries(self, call: CallRecord, outcome: Settled) -> Settled:
        """Return the outcome of a call; an error if its tool asked for one attempt too many."""
        tool = self.tools.get(call.tool_name)
        return with_retries_counted(tool, self._work.state, call, outcome)
