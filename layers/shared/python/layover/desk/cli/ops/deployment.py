"""`layover ops stop`, `start`, `limits`, `erase`: everything at once, or one user."""

import json
from typing import Any

from layover.desk.cli.client import NO_ANSWER, Api, ApiError
from layover.desk.cli.ops.asking import Json, Who, confirm, second_of
from layover.desk.failures import report_failure

_SWITCH = "/operate/switch"


@report_failure
def stop(who: Who, reason: str) -> int:
    """Stop everything, and print who did, why and since when. The exit code."""
    print(_switch_line(Api(*who()).put(_SWITCH, reason=reason)))
    return 0


@report_failure
def start(who: Who) -> int:
    """Let everything go on. The exit code."""
    print(_switch_line(Api(*who()).delete(_SWITCH)))
    return 0


@report_failure
def show_limits(who: Who, owner: str, *, as_json: bool) -> int:
    """Print what each user may spend, the switch, and what `owner` has used of today. The exit code."""
    limits = Api(*who()).get("/operate/limits", **({"owner": owner} if owner else {}))
    if as_json:
        print(json.dumps(limits))
        return 0
    print(_switch_line(limits["switch"]))
    print(f"tokens of a user and day: {_or_none(limits['daily_tokens'])}")
    print(f"US dollars of a user and day: {_or_none(limits['daily_cost_usd'])}")
    print(f"runs of a user in a minute: {_or_none(limits['runs_per_minute'])}")
    if owner:
        print(_used_line(owner, limits["used"]))
    return 0


@report_failure
def erase(who: Who, user: str, reason: str, *, yes: bool) -> int:
    """Erase everything that is stored about a user, after a question. The exit code."""
    api = Api(*who())
    confirm(f"Erase everything that is stored about {user}? Nobody can bring it back.", yes=yes)
    try:
        answer = api.post("/operate/users/erase", user=user, reason=reason)
    except ApiError as error:
        if error.exit_code != NO_ANSWER:
            raise
        text = f"{user}: {error}. The same command again makes sure"
        raise ApiError(text, error.exit_code, error.status) from error
    print(f"{user}: what was stored until {second_of(answer['until'])} is gone, and being erased")
    return 0


def _switch_line(switch: Json) -> str:
    if not switch["stopped"]:
        return "nothing is stopped"
    if switch["since"] is None:
        return "everything is stopped, by an item that somebody wrote by hand"
    by = switch["on_behalf_of"] or switch["by"]
    return f"everything is stopped, since {second_of(switch['since'])}, by {by}: {switch['reason']}"


def _or_none(limit: Any) -> str:
    return "no limit" if limit is None else str(limit)


def _used_line(owner: str, used: Json | None) -> str:
    if used is None:
        return f"{owner}: days have no limit, so their use is not counted here"
    over = "; the day is used up" if used["used_up"] else ""
    return f"{owner} today: {used['tokens']} tokens, {used['cost_usd']:.4f} USD{over}"
