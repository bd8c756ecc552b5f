"""Checks that find, before a deployment, what would make it fail after a quarter of an hour: `python -m
layover.desk.cdk.preflight`. `make deploy` runs them first."""

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from layover.desk.cdk.adoption import is_new, of_another, problems
from layover.desk.cdk.deployed import Place, find
from layover.desk.cdk.ipv6 import out_of_reach
from layover.desk.cdk.regions import streaming_caution, unfit
from layover.desk.cdk.settings import Settings

NEW = "--new"
OWNER = "--owner"
TAKE_OVER = "--take-over"
MIN_UNRESERVED = 100
"""Concurrency that Lambda insists on leaving unreserved."""


def context(arguments: Sequence[str]) -> dict[str, str]:
    """Return `-c name=value` and `--context name=value` of the CDK's command line. Raises ValueError for one
    without a value."""
    values = list(options(arguments, "-c", "--context"))
    wrong = next((value for value in values if "=" not in value), None)
    if wrong is not None:
        # The CDK's command line only warns of it, and deploys without the setting.
        raise ValueError(f"-c {wrong}: write NAME=VALUE")
    return dict(value.split("=", 1) for value in values)


def account(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the account and the region of the command line, as boto3's Session takes them."""
    names = {"--profile": "profile_name", "--region": "region_name"}
    return {keyword: value for flag, keyword in names.items() for value in options(arguments, flag)}


def options(arguments: Sequence[str], *flags: str) -> Iterator[str]:
    """Yield the values of flags, as `--flag value` and `--flag=value`, in order."""
    for flag, value in pairwise((*arguments, "")):
        name, equals, same = flag.partition("=")
        if flag in flags:
            yield value
        elif equals and name in flags:
            yield same


def too_much(settings: Settings, limit: int) -> str | None:
    """Return why an account with this concurrency cannot reserve what the settings ask for; None: it can."""
    reservation = settings.api_concurrency
    if not reservation or limit - reservation >= MIN_UNRESERVED:
        return None
    return (
        f"this account may run {limit} functions at once, too few to set aside {reservation} for the API: "
        "deploy with `-c api_concurrency=0`, or ask AWS for more"
    )


def describe(settings: Settings) -> str:
    """Return all settings that differ from the defaults: a setting that was forgotten would be undone."""
    values = settings.model_dump(mode="json", include=settings.model_fields_set - {"stage"})
    text = " ".join(f"{name}={values[name]!r}" for name in sorted(values)) or "the defaults"
    return f"stage {settings.stage}: {text}"


def concurrency(client: Any) -> int:
    """Return the concurrency of the account in this region."""
    return int(client.get_account_settings()["AccountLimit"]["ConcurrentExecutions"])


def main(arguments: Sequence[str]) -> int:
    """Run the checks, and return the exit code. If the caller may not look into the account, the deployment
    goes on.

    `--new`: the exit code is 0 if this would be the first deployment of a protected stage, which is made
    without protection first. `--owner`: only look whose the stack is, before it is taken down. `--take-over`:
    a stack that does not tell its project is this one's."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        settings = Settings.from_context(context(arguments))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if not {NEW, OWNER} & set(arguments):
        print(describe(settings))
    wrong: list[str] = []
    try:
        session = boto3.Session(**account(arguments))
        place = _place(settings, session)
        if NEW in arguments:
            return int(not (settings.protects and is_new(settings, session.client, place)))
        # One after the other: what was found counts, although a later check may not be made.
        for each in _look(settings, session, place, arguments):
            print(each, file=sys.stderr)
            wrong.append(each)
    except (BotoCoreError, ClientError) as error:
        goes_on = "" if wrong else "; the command goes on without these checks"
        print(
            f"could not check the account ({error}){goes_on}. "
            "The page *First deployment* lists the rights that they need",
            file=sys.stderr,
        )
        return int(bool(wrong) or NEW in arguments)
    return int(bool(wrong))


def _look(
    settings: Settings, session: Any, place: Place | None, arguments: Sequence[str]
) -> Iterator[str]:
    """Yield what is wrong, first of all that the stack is another project's."""
    takes_over = TAKE_OVER in arguments
    if another := of_another(settings, session.client, place, takes_over=takes_over):
        yield another
    if OWNER not in arguments:
        if (caution := streaming_caution(session.region_name)) is not None:
            print(caution, file=sys.stderr)
        yield from _wrong(settings, session, place)


def _wrong(settings: Settings, session: Any, place: Place | None) -> Iterator[str]:
    where = unfit(session.region_name, settings)
    if where is not None:
        yield where
        return
    if hosts := out_of_reach(settings, session.region_name):
        yield (
            f"nat=ipv6 leads only to hosts with an IPv6 address, and none was found for "
            f"{', '.join(hosts)}: choose nat=instance, or another provider"
        )
    if (much := too_much(settings, concurrency(session.client("lambda")))) is not None:
        yield much
    yield from problems(settings, session.client, place)


def _place(settings: Settings, session: Any) -> Place | None:
    deployed = find(settings.prefix, session.client("cloudformation"))
    return None if deployed is None else deployed.place


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
