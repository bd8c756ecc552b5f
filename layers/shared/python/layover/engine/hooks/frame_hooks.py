"""The hooks of one frame of a run."""

from typing import Any, Literal

from layover.declare.blocking import call_author
from layover.declare.hooks.base import MODEL_POINTS, AskModel, HookContext, defines, name_of
from layover.declare.schemas.render import message_of
from layover.engine.isolation import isolate
from layover.engine.work import RunWork
from layover.errors import RunFailed
from layover.values.base import Json
from layover.values.runs.run import HOOKS_TOOL

Kind = Literal["before_model", "at_end"]


class FrameHooks:
    """The hooks of one frame, and the facts of its run that they see. `metadata`: the thread's."""

    def __init__(self, work: RunWork, metadata: dict[str, Json] | None = None) -> None:
        self.work = work
        self._metadata = metadata

    def at(self, point: str) -> list[tuple[str, Any]]:
        """Return the hooks that are asked at a point, with names that are unique in this agent. Around the
        model, the callers' hooks come after the agent's own."""
        agent = self.work.agent
        above = agent.hooks_above if point in MODEL_POINTS else ()
        hooks = (*agent.hooks, *above)
        named_hooks = ((f"{n}.{name_of(hook)}", hook) for n, hook in enumerate(hooks))
        return [(name, hook) for name, hook in named_hooks if defines(hook, point)]

    def context(self, models: AskModel | None = None) -> HookContext:
        """Return the context that the hooks of one step share. `models`: answers their questions; None: they
        have none to ask."""
        work, state = self.work, self.work.state
        meta, base = state.meta, state.base
        return HookContext(
            run_id=state.run_id,
            thread_id=meta.thread_id if meta.thread_given else None,
            resource_id=meta.owner,
            agent_name=work.agent.name,
            metadata=base.metadata if base else self._metadata or {},
            now=work.clock.now(),
            deps=work.agent.made_deps,
            groups=meta.groups,
            scopes=meta.scopes,
            nodes=work.run_files.node,
            models=models,
        )

    def failed(self, hook: Any, point: str, error: Exception) -> RunFailed:
        """Return the failure of a run whose hook raised."""
        message = f"{point} of the hook {name_of(hook)!r} failed: {message_of(error)}"
        kind, run_id = type(error).__name__, self.work.state.run_id
        return RunFailed(message, type=kind, is_internal=True, run_id=run_id)

    def journaled(self, kind: Kind) -> list[Any]:
        """Return the answers that were journaled before the next step, and are stored with it
        (docs/hooks.md#stored)."""
        state = self.work.state
        _, key = state.next_key()
        return [
            call.result
            for call in state.calls.values()
            if call.tool_name == HOOKS_TOOL
            and call.key.startswith(f"{key}#CALL#")
            and call.args == {"point": kind}
            and not (kind == "at_end" and state.was_reopened_after(call))
        ]

    async def keep(self, kind: Kind, answers: dict[str, Any]) -> None:
        """Journal answers that fit into no step or call, in one write: as a settled call that no model made,
        stored with the next step."""
        state = self.work.state
        _, key = state.next_key()
        facts = {"args": {"point": kind}, "result": answers, "settled_at": self.work.clock.now()}
        await self.work.note(state.new_call(key, "hooks", HOOKS_TOOL, **facts))


async def ask_hook(hook: Any, point: str, *args: Any) -> Any:
    """Return the hook's answer. Raises what the hook raises, always an Exception."""
    return await isolate(call_author(getattr(hook, point), *args))
