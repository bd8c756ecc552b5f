"""Questions of hooks to a model (`HookContext.ask_model`)."""

from layover.context.assembly import model_of
from layover.context.hooked import complete_hooked
from layover.context.literal import literal_settings
from layover.declare.hooks.base import ModelQuestion
from layover.engine.models.day_room import DayRoom
from layover.engine.models.unused_replies import UnusedReplies
from layover.engine.work import RunWork
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import OutputSpec, Prompt

TASK = "hook"
"""`X-Layover-Task` of such a request."""


async def ask_for_hook(work: RunWork, question: ModelQuestion) -> str:
    """Return a model's answer to a hook's question. Hooks that are `everywhere` change the request, and its
    usage counts as the run's: it is journaled at once, whatever becomes of the step. Raises ModelError, and
    RunFailed if the user's day is used up or a hook fails."""
    meta = work.state.meta
    model = question.model or model_of(work.agent, work.runtime.settings, meta)
    schema = question.schema
    message = Message(
        id=TASK,
        thread_id="",
        role=Role.USER,
        content=(TextPart(text=question.text),),
        created_at=work.clock.now(),
    )
    prompt = Prompt(
        model=model,
        system=question.system,
        messages=(message,),
        task=TASK,
        run_id=work.state.run_id,
        settings=literal_settings(model, question.max_tokens),
        output=OutputSpec(name=TASK, json_schema=schema, strict=True) if schema else None,
        api=work.agent.api if model == work.agent.model else "chat",
    )
    await work.invocation.check()
    await DayRoom(work).reserve(prompt)
    with work.runtime.tracing.question(meta, work.agent.name, work.state.path):
        reply = await complete_hooked(work.runtime, work.agent, meta, prompt)
    await UnusedReplies(work).add(reply)
    return reply.text
