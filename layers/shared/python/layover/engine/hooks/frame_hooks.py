"""The hooks of one frame of a run."""

from typing import Any

from layover.declare.blocking import call_author
from layover.declare.hooks.base import MODEL_POINTS, AskModel, HookContext, defines, name_of
from layover.declare.schemas.render import message_of
from layover.engine.frame_core import FrameCore
from layover.engine.isolation import isolate
from layover.errors import RunFailed
from layover.values.base import Json


class FrameHooks:
    """The hooks of one frame, and the facts of its run that they see. `metadata`: the thread's."""

    def __init__(self, core: FrameCore, metadata: dict[str, Json] | None = None) -> None:
        self.log = core.log
        self.state = core.state
        self.agent = core.agent
        self.clock = core.clock
        self._run_files = core.run_files
        self._metadata = metadata

    def at(self, point: str) -> list[tuple[str, Any]]:
        """Return the hooks that are asked at a point, with names that are unique in this agent. Around the
        model, the callers' hooks come after the agent's own."""
        above = self.agent.hooks_above if point in MODEL_POINTS else ()
        hooks = (*self.agent.hooks, *above)
        named_hooks = ((f"{n}.{name_of(hook)}", hook) for n, hook in enumerate(hooks))
        return [(name, hook) for name, hook in named_hooks if defines(hook, point)]

    def context(self, models: AskModel | None = None) -> HookContext:
        """Return the context that the hooks of one step share. `models`: answers their questions; None: they
        have none to ask."""
        meta, base = self.state.meta, self.state.base
        return HookContext(
            run_id=self.state.run_id,
            thread_id=meta.thread_id if meta.thread_given else None,
            resource_id=meta.owner,
            agent_name=self.agent.name,
            metadata=base.metadata if base else self._metadata or {},
            now=self.clock.now(),
            deps=self.agent.made_deps,
            groups=meta.groups,
            scopes=meta.scopes,
            nodes=self._run_files.node,
            models=models,
        )

    def failed(self, hook: Any, point: str, error: Exception) -> RunFailed:
        """Return the failure of a run whose hook raised."""
        message = f"{point} of the hook {name_of(hook)!r} failed: {message_of(error)}"
        return RunFailed(message, type=type(error).__name__, run_id=self.state.run_id)


async def ask_hook(hook: Any, point: str, *args: Any) -> Any:
    """Return the hook's answer. Raises what the hook raises, always an Exception."""
    return await isolate(call_author(getattr(hook, point), *args))
