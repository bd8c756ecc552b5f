"""A frame of a run, put together from the bottom up: each part gets only parts that are finished."""

from collections.abc import Callable, Sequence
from functools import partial

from layover.context.assembly import model_of
from layover.declare.agent import Agent
from layover.declare.tools.delegate import MAX_DEPTH
from layover.declare.tools.options import Delegate
from layover.declare.tools.tool import AnyTool
from layover.engine.compaction import Compaction
from layover.engine.dependencies import with_deps
from layover.engine.frames.background import Background
from layover.engine.frames.frame import Frame
from layover.engine.frames.instructions import with_instructions
from layover.engine.frames.memory import as_sub_agent, empty_input, sub_agent_input
from layover.engine.frames.step import ModelStep
from layover.engine.frames.subagents import NestedRuns
from layover.engine.frames.tools import with_run_tools, with_tools
from layover.engine.frames.turn_input import TurnInput
from layover.engine.hooks.at_end import AtEnd
from layover.engine.hooks.frame_hooks import FrameHooks
from layover.engine.invocation import Invocation
from layover.engine.progress import Progress
from layover.engine.prompter import Prompter, PromptMemory
from layover.engine.run_files import RunFiles
from layover.engine.state import RunState
from layover.engine.tools.background import foreground_width
from layover.engine.tools.calls import Calls
from layover.engine.tools.nothing_new import NothingNew
from layover.engine.tools.results import opens_results, result_tool
from layover.engine.tools.search import may_search, search_tool, specs_of
from layover.engine.tools.toolbox import Toolbox
from layover.engine.work import RunWork
from layover.errors import RunFailed
from layover.runtime import Runtime
from layover.values.message import Message
from layover.values.prompt import Prompt, ToolSpec
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import MAX_WINDOW, MESSAGES_TOOL


def assemble(
    invocation: Invocation,
    state: RunState,
    agent: Agent,
    turn_input: TurnInput,
    *,
    width: int = MAX_WINDOW,
    above: RunWork | None = None,
) -> Frame:
    """Return the frame of an agent, ready to run. `width`: how many of its calls may wait at once. `above`:
    None for the run itself."""
    declared, agent = agent, with_tools(agent, turn_input.tools)
    # The model may read the result of a step's last call before the journal has it, if nobody else does: a
    # hook would act on a result that a death takes back, compaction would write it to the database, and a
    # sub-agent's caller would see it (docs/saved-writes.md#beside-the-model).
    compacted = turn_input.compaction
    model_follows = above is None and not (compacted or agent.hooks)
    work = RunWork(invocation, state, agent, above=above, model_follows=model_follows)
    if state.hears:
        # What was said while the run was set aside. All else in the next prompt comes behind that.
        state.heard, state.heard_at = turn_input.heard, turn_input.newest_at
    state.windows |= turn_input.windows

    memory = _prompt_memory(state, turn_input)
    built_in = _built_in(work.runtime, agent, state, memory, turn_input)
    hooks = FrameHooks(work, memory.base.metadata)
    settings = agent.model_settings.over(turn_input.model_settings)

    toolbox = Toolbox(work, hooks, built_in)
    nested = NestedRuns(work, partial(_enter, work, settings))
    background = Background(work, toolbox, nested)
    width = foreground_width(agent.tools, state, width)
    # A sub-agent answers its caller: it has nothing in the background.
    launch = background.begin if above is None else None
    calls = Calls(work, toolbox, nested, width=width, launch=launch)

    nothing_new = NothingNew(agent, state, built_in)
    prompter = _prompter(
        work.runtime,
        agent,
        state,
        memory=memory,
        turn_input=turn_input,
        built_in=built_in,
        notes=nothing_new.add_texts,
    )
    return Frame(
        work=work,
        steps=ModelStep(work, prompter, hooks, calls, built_in=built_in, declared=declared),
        calls=calls,
        background=background,
        nothing_new=nothing_new,
        compaction=Compaction(work, prompter, compacted) if compacted else None,
        end=AtEnd(hooks),
    )


def prompt_of_next_step(
    runtime: Runtime, agent: Agent, state: RunState, turn_input: TurnInput
) -> Prompt:
    """Return the prompt of a run's next step before its hooks change it. Nothing is asked or written. Raises
    RunFailed."""
    agent = with_tools(agent, turn_input.tools)
    memory = _prompt_memory(state, turn_input)
    built_in = _built_in(runtime, agent, state, memory, turn_input)
    prompter = _prompter(
        runtime,
        agent,
        state,
        memory=memory,
        turn_input=turn_input,
        built_in=built_in,
        notes=NothingNew(agent, state, built_in).add_texts,
    )
    return prompter.prompt(state)


async def _enter(
    above: RunWork, settings: ModelSettings, delegate: Delegate, state: RunState, width: int
) -> Progress:
    """Go on with a sub-agent in one of the calls of the agent `above`, whose model has these settings."""
    if len(state.agent_path) > MAX_DEPTH + 1:
        message = f"sub-agents are at most {MAX_DEPTH} levels below the top agent"
        raise RunFailed(message, type="DefinitionError")
    runtime = above.runtime
    agent = as_sub_agent(delegate.agent, above.agent, memory=delegate.memory)
    agent = await with_deps(agent, runtime.settings)
    settings = settings.for_sub_agent()
    # The caller's choices also hold for sub-agents where they narrow something: a sub-agent keeps its own
    # model.
    state.choose(state.meta.choice.below(agent.model, agent.model_settings))
    if delegate.memory:
        turn_input = await sub_agent_input(runtime, agent, state, settings)
    else:
        turn_input = empty_input(state, settings)
    turn_input = await with_instructions(agent, state, turn_input, above.state.base)
    turn_input = await with_run_tools(runtime, agent, state, turn_input)
    frame = assemble(above.invocation, state, agent, turn_input, width=width, above=above)
    return await frame.run()


def _window(
    runtime: Runtime, agent: Agent, state: RunState, settings: ModelSettings
) -> tuple[int | None, bool]:
    """Return the window of the agent's model, and whether only refusals have taught it."""
    model, settings = (
        model_of(agent, runtime.settings, state.meta),
        state.meta.choice.apply(settings),
    )
    learned = state.windows
    window = runtime.window_of(model, settings, learned)
    return window, learned != {} and window != runtime.window_of(model, settings)


def _prompt_memory(state: RunState, turn_input: TurnInput) -> PromptMemory:
    base = state.base or turn_input.base
    if turn_input.served is not None:
        # The next step pins them.
        base = base.model_copy(update={"served": turn_input.served})
    return PromptMemory(base, turn_input.rendered)


def _built_in(
    runtime: Runtime,
    agent: Agent,
    state: RunState,
    memory: PromptMemory,
    turn_input: TurnInput,
) -> list[AnyTool]:
    """Return Layover's own tools: that which reads what compaction hid among them."""
    tools = [*turn_input.memory_tools]
    if MESSAGES_TOOL in agent.built_in_tools:
        tools.append(runtime.agent_memory.messages_tool(state.meta, memory.through))
    if may_search(agent):
        # Also for a provider that takes fewer tools than the agent has.
        tools.append(search_tool(agent.tools))
    if opens_results(agent):
        run_files = RunFiles(runtime, state.meta, agent.name)
        tools.append(result_tool(state, turn_input.history, run_files))
    return tools


def _prompter(
    runtime: Runtime,
    agent: Agent,
    state: RunState,
    *,
    memory: PromptMemory,
    turn_input: TurnInput,
    built_in: Sequence[AnyTool],
    notes: Callable[[Sequence[Message]], Sequence[Message]],
) -> Prompter:
    """Return what makes the prompts of an agent. `notes`: as `Prompter`."""
    settings = agent.model_settings.over(turn_input.model_settings)
    window, is_learned = _window(runtime, agent, state, settings)
    return Prompter(
        agent=agent,
        settings=runtime.settings,
        memory=memory,
        history=turn_input.history,
        tools=partial(_specs, agent, built_in, memory),
        window=window,
        is_learned=is_learned,
        model_settings=settings,
        notes=notes,
    )


def _specs(
    agent: Agent, built_in: Sequence[AnyTool], memory: PromptMemory, state: RunState
) -> list[ToolSpec]:
    """Return the tools that the next step's model is shown: that for hidden messages if there are any."""
    if memory.through() is None:
        built_in = [tool for tool in built_in if tool.name != MESSAGES_TOOL]
    return specs_of(agent, built_in, state)
