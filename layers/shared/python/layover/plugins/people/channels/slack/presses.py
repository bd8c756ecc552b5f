"""Presses of buttons and forms in Slack, each decided as the person who pressed.

A press gives nobody a right: the person is the one that the configuration has for Slack's user id, and
`approvals.decide` asks of them what it asks of every caller. Whoever is refused is told so, and nobody
else."""

import logging
from collections.abc import Mapping
from typing import Any

from layover.approvals.decide import DecisionRequest, Verdict, decide
from layover.approvals.open_call import check_open, find_call
from layover.errors import (
    DecisionAlreadyMade,
    DecisionInvalid,
    LayoverError,
    NotAnApprover,
    RequestError,
    RetryableError,
)
from layover.plugins.people.channels.slack import SLACK
from layover.plugins.people.channels.slack.block_kit import (
    APPROVE,
    DENY,
    FORM,
    FORMS,
    CallRef,
    Json,
)
from layover.plugins.people.channels.slack.forms import (
    FormErrors,
    errors_by_block,
    form_view,
    read_answer,
    read_reason,
    text_view,
)
from layover.ports.channels import PressPorts
from layover.runtime import Runtime
from layover.values.channels import Address, Notice, NoticeKind, SlackTeam
from layover.values.decision import Via
from layover.values.deployment.access import Actor
from layover.values.runs.views import OpenApproval

logger = logging.getLogger("layover")

_VERDICTS = {APPROVE: Verdict.APPROVE, DENY: Verdict.DENY}
_AGAIN = "You had decided this in the same way before. It counts once."
_BUSY = "Layover could not record this just now. Press again in a moment: a decision counts once."
_NO_FORM = "Slack did not open the form. Press again: a button is good for three seconds."
_STRANGER = (
    "Nothing has changed: Layover does not know you in Slack. Ask whoever runs it to add your id, {user}, to "
    "`people` of its channels."
)
_ELSEWHERE = (
    "Nothing has changed: you are in another workspace, or have another installation of this app, than "
    "Layover takes presses from. Ask whoever runs it to compare `slack_team` of its channels."
)


async def answer_interaction(
    runtime: Runtime, slack: PressPorts, interaction: Mapping[str, Any]
) -> Json | None:
    """Do what an interaction asks for, and return the body of the answer to Slack; None: an empty one.
    Interactions that are not of our buttons and forms are passed over. Slack waits for three seconds.

    Args:
        runtime: The ports.
        slack: The ports of presses.
        interaction: The payload, whose signature was verified.
    """
    match interaction.get("type"):
        case "block_actions":
            await _press(runtime, slack, interaction)
            return None
        case "view_submission":
            return await _submit(runtime, interaction)
        case "url_verification":
            return {"challenge": _text(interaction.get("challenge"))}
        case _:
            return None


async def _press(runtime: Runtime, slack: PressPorts, interaction: Mapping[str, Any]) -> None:
    action = _object(_first(interaction.get("actions")))
    name = _text(action.get("action_id"))
    if name not in _VERDICTS and name not in FORMS:
        return
    try:
        ref, _ = CallRef.decode(action.get("value"))
    except (ValueError, RecursionError):
        return
    try:
        actor = _actor(runtime, interaction)
        if name in FORMS:
            notice = await _notice(runtime, actor, ref)
            view = form_view(notice, ref, FORMS[name], runtime.channels.config)
            await _open(slack, interaction, view)
            return
        request = DecisionRequest(_VERDICTS[name], attempt=ref.attempt, via=Via.SLACK)
        outcome = await decide(runtime, actor, ref.run_id, ref.tool_call_id, request)
        if outcome.again:
            await _tell(slack, interaction, _AGAIN)
    except (RequestError, RetryableError) as error:
        await _tell(slack, interaction, _words(error))


async def _submit(runtime: Runtime, interaction: Mapping[str, Any]) -> Json | None:
    view = _object(interaction.get("view"))
    if view.get("callback_id") != FORM:
        return None
    try:
        ref, more = CallRef.decode(view.get("private_metadata"))
        verdict = Verdict(_text(more.get("verdict")))
    except (ValueError, RecursionError):
        return None
    values = _object(_object(view.get("state")).get("values"))
    try:
        actor = _actor(runtime, interaction)
        data = None
        if verdict is Verdict.RESUME:
            _, call = await find_call(runtime, actor, ref.run_id, ref.tool_call_id)
            # A later attempt may ask for something else: `decide` refuses this one, whatever it says.
            if call.suspension is not None and call.attempt == ref.attempt:
                data = read_answer(call.suspension.resume_schema, values)
        request = DecisionRequest(
            verdict,
            reason=read_reason(values),
            data=data,
            attempt=ref.attempt,
            via=Via.SLACK,
        )
        outcome = await decide(runtime, actor, ref.run_id, ref.tool_call_id, request)
    except FormErrors as error:
        return _wrong(error.errors)
    except DecisionInvalid as error:
        errors = errors_by_block(error, values)
        return _wrong(errors) if errors else _say(_words(error))
    except (RequestError, RetryableError) as error:
        return _say(_words(error))
    return _say(_AGAIN) if outcome.again else {"response_action": "clear"}


class _Stranger(RequestError):
    """The configuration has nobody with this id of Slack's, or another installation of the app."""


def _actor(runtime: Runtime, interaction: Mapping[str, Any]) -> Actor:
    """Return the person who pressed. Slack's ids count, never a name: anybody can change that."""
    if not _is_from(runtime.channels.config.slack_team, interaction):
        raise _Stranger(_ELSEWHERE)
    user = _text(_object(interaction.get("user")).get("id"))
    address = Address(channel=SLACK.name, to=user)
    person = runtime.channels.config.person_at(address) if user else None
    if person is None:
        raise _Stranger(_STRANGER.format(user=user))
    return Actor(sub=person.id, groups=person.groups)


def _is_from(place: SlackTeam | None, interaction: Mapping[str, Any]) -> bool:
    """Return whether a press comes from this installation; None: from any, by somebody of the
    same workspace. Slack signs for all of an app's installations alike, and shows a message in a shared
    channel to people of other workspaces."""
    view = _object(interaction.get("view"))
    user, team = _object(interaction.get("user")), _object(interaction.get("team"))
    teams = _ids(team.get("id"), user.get("team_id"), view.get("team_id"))
    if place is None:
        return len(teams) <= 1
    apps = _ids(interaction.get("api_app_id"), view.get("app_id"))
    enterprise = _object(interaction.get("enterprise")).get("id")
    return (teams, apps, enterprise) == ({place.team}, {place.app}, place.enterprise)


async def _notice(runtime: Runtime, actor: Actor, ref: CallRef) -> Notice:
    """Return the call as a form shows it. Raises as `decide` does, before anything of it is shown."""
    snapshot, call = await find_call(runtime, actor, ref.run_id, ref.tool_call_id)
    check_open(runtime, snapshot, call, ref.attempt)
    run = snapshot.meta
    ids = {"run_id": run.id, "thread_id": run.thread_id, "agent": run.agent}
    return Notice(
        kind=NoticeKind.REQUESTED,
        owner=run.owner,
        call=OpenApproval.of(call, run.agent, **ids),
        rule=call.rule,
        at=runtime.clock.now(),
    )


async def _open(slack: PressPorts, interaction: Mapping[str, Any], view: Json) -> None:
    try:
        await slack.replies.open_form(_text(interaction.get("trigger_id")), view)
    except LayoverError as error:
        _note(error, "a form was not opened in Slack")
        await _tell(slack, interaction, _NO_FORM)


async def _tell(slack: PressPorts, interaction: Mapping[str, Any], text: str) -> None:
    """Tell the person who pressed. What was decided stands, also if Slack does not take the text."""
    try:
        await slack.replies.tell(_text(interaction.get("response_url")), text)
    except LayoverError as error:
        _note(error, "a person was not told in Slack why a press changed nothing")


def _note(error: LayoverError, what: str) -> None:
    logger.warning(what, extra={"cause": type(error).__name__, "says": error.message})


def _words(error: LayoverError) -> str:
    """Return a refusal in words for the person. A call that they may not know of is not told from one that
    is not there."""
    match error:
        case _Stranger():
            return error.message
        case RetryableError():
            return _BUSY
        case DecisionAlreadyMade():
            return f"Nothing has changed: {error.message}."
        case NotAnApprover():
            return f"Nothing has changed: {error.message}."
        case DecisionInvalid():
            return f"Nothing has changed: {error.message}."
        case _:
            return "Nothing has changed: you may not decide this call, or it is not there any more."


def _wrong(errors: Mapping[str, str]) -> Json:
    return {"response_action": "errors", "errors": dict(errors)}


def _say(text: str) -> Json:
    return {"response_action": "update", "view": text_view(text)}


def _ids(*values: Any) -> set[str]:
    """Return those that are there."""
    return {_text(each) for each in values if each is not None}


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
