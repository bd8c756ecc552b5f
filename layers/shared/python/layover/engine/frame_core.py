"""`FrameCore`: the objects that every part of the engine shares while it works on one frame of a run."""

from dataclasses import dataclass, field
from functools import cached_property

from layover.declare.agent import Agent
from layover.engine.run_files import RunFiles
from layover.engine.state import RunState
from layover.engine.stopping import Stopping
from layover.ports import Clock, RunLog
from layover.runtime import Runtime


@dataclass(frozen=True)
class FrameCore:
    """The runtime, the log, the state and the agent of one frame. One instance serves all parts of the engine
    that work on that frame."""

    runtime: Runtime
    log: RunLog
    """Of this frame: a sub-agent's writes its steps and calls below its parent's call."""
    state: RunState
    agent: Agent
    stopping: Stopping = field(default_factory=Stopping)
    """Shared by all frames of the run: whoever stops it stops all of them."""

    @property
    def clock(self) -> Clock:
        """The clock of the runtime."""
        return self.runtime.clock

    @cached_property
    def run_files(self) -> RunFiles:
        """The files of the frame's run, under its agent's name."""
        return RunFiles(self.runtime, self.state.meta, self.agent.name)
