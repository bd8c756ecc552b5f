"""Checks of a stage before people depend on it: `layover doctor --stage prod`.

docs/deploy/before-production.md has a row for each check."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from layover.desk.cdk.ipv6 import has_ipv6, out_of_reach
from layover.desk.cdk.settings import Mfa, Settings
from layover.desk.cdk.sizes import Nat, Size
from layover.project import DeploySettings, Project

NAMES = ("prod", "production", "live")
"""Stages that people depend on, whatever their size."""
PENDING = "PendingConfirmation"
"""SNS has this in the place of the ARN of a subscription that nobody has confirmed."""


@dataclass(frozen=True)
class Check:
    """One thing that a stage needs. `todo`: what to do about it; empty: it is there."""

    name: str
    fact: str
    todo: str = ""


@dataclass(frozen=True)
class _Rule:
    """One check of settings. `holds`: whether they have it; `fact` and `todo`: in words."""

    name: str
    holds: Callable[[Settings], object]
    fact: str
    todo: str


_RULES = (
    _Rule(
        "zones",
        lambda s: s.nat is not Nat.INSTANCE and (s.nat is not Nat.GATEWAY or s.nat_gateways > 1),
        "each zone has its own way out",
        "one zone has the only way out: nat=gateway with nat_gateways=2 (size=production)",
    ),
    _Rule(
        "awake",
        lambda s: s.database_min_acu > 0,
        "the database never sleeps",
        "the database sleeps, and the first request after that waits: database_min_acu=0.5 "
        "(size=production)",
    ),
    _Rule(
        "reader",
        lambda s: s.database_readers,
        "a reader takes the place of a writer that fails",
        "a writer that fails is made anew, which takes minutes: database_readers=1 (size=production)",
    ),
    _Rule(
        "versions",
        lambda s: s.bucket_versions_days,
        "files that were overwritten or deleted can be brought back",
        "a file that was deleted by mistake is gone: bucket_versions_days=30 (size=production)",
    ),
    _Rule(
        "key",
        lambda s: s.own_key,
        "data has a key of the account's own",
        "AWS's keys encrypt the data, so nobody can withdraw them: own_key=true (size=production). It is "
        "decided before the first deployment",
    ),
    _Rule(
        "protection",
        lambda s: s.protects,
        "deletion is refused",
        "the stack and its data can be deleted by one command: retain=true and protection=true",
    ),
    _Rule(
        "alarms",
        lambda s: s.alarms and s.alarms_email,
        "alarms have an address",
        "alarms tell nobody: alarms=true and alarms_email",
    ),
    _Rule(
        "budget",
        lambda s: s.budget_usd,
        "a mail comes before the month costs more than you chose",
        "nobody is told what the month will cost: budget_usd",
    ),
    _Rule(
        "spending",
        lambda s: s.daily_tokens or s.daily_cost_usd,
        "a user's day has a limit",
        "one user may spend without a limit: daily_cost_usd or daily_tokens",
    ),
    _Rule(
        "rate",
        lambda s: s.runs_per_minute,
        "a user's runs have a rate",
        "one user's loop takes the rate of all: runs_per_minute=60 (size=production)",
    ),
    _Rule(
        "concurrency",
        lambda s: s.api_concurrency,
        "requests and runs do not take each other's concurrency",
        "runs can take all concurrency from the API: api_concurrency, in an account whose quota has room",
    ),
    _Rule(
        "second factor",
        lambda s: s.issuer or s.adopt_user_pool or s.mfa is Mfa.REQUIRED,
        "sign-in asks for one, or your provider decides",
        "a password is enough to approve: mfa=required",
    ),
    _Rule(
        "content",
        lambda s: not s.trace_content and s.log_level != "DEBUG",
        "traces and logs have no words of users",
        "traces or logs say more than ids: trace_content=false, log_level=INFO",
    ),
)


def checks(settings: Settings, has_address: Callable[[str], bool] = has_ipv6) -> Iterator[Check]:
    """Yield what the settings have and lack. `has_address`: looks up whether a host has IPv6."""
    for rule in _RULES:
        yield Check(rule.name, rule.fact, "" if rule.holds(settings) else rule.todo)
    if settings.nat is Nat.IPV6:
        hosts = ", ".join(out_of_reach(settings, has_address=has_address))
        todo = f"no IPv6 address of {hosts}: nat=gateway, or another provider" if hosts else ""
        yield Check("way out", "every host of the settings has an IPv6 address", todo)


def mail_check(email: str, sns: Any) -> Check:
    """Return whether the address of the alarms takes mail. `sns`: a boto3 client. Raises botocore's
    errors."""
    pages = sns.get_paginator("list_subscriptions").paginate()
    arns = [
        each["SubscriptionArn"]
        for page in pages
        for each in page["Subscriptions"]
        if each["Endpoint"] == email
    ]
    if not arns:
        return Check("mail", "", f"no alarm goes to {email} yet: deploy the stage")
    if PENDING in arns:
        return Check("mail", "", f"{email} has not confirmed: follow the link in the mail of AWS")
    return Check("mail", f"{email} has confirmed")


def matters(settings: Settings) -> bool:
    """Return whether people depend on such a stage, so that what it lacks is a failure."""
    return settings.size is Size.PRODUCTION or settings.stage in NAMES


def main(project: Project | None, stage: str, client: Callable[..., Any] | None = None) -> int:
    """Print a line for each check of a stage that people depend on, and return the exit code; print nothing
    for any other. `client`: like that of a boto3 Session, if not of the project's profile and region."""
    try:
        settings = Settings.from_context({"stage": stage})
    except ValueError as error:
        print(f"FAIL  settings of {stage}: {error}", file=sys.stderr, flush=True)
        return 1
    if not matters(settings):
        return 0
    results = [*checks(settings), *_of_account(settings, project, client)]
    for each in results:
        _tell(each)
    missing = sum(bool(each.todo) for each in results)
    if missing:
        page = "docs/deploy/before-production.md"
        print(f"{stage} lacks {missing} of {len(results)}: {page}", file=sys.stderr, flush=True)
    return int(bool(missing))


def _of_account(
    settings: Settings, project: Project | None, client: Callable[..., Any] | None
) -> Sequence[Check]:
    """Return what only the account knows; nothing if it may not be looked at."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    if not (settings.alarms and settings.alarms_email):
        return ()
    try:
        if client is None:
            at = project.settings.deploy if project is not None else DeploySettings()
            client = boto3.Session(profile_name=at.profile, region_name=at.region).client
        return (mail_check(settings.alarms_email, client("sns")),)
    except (BotoCoreError, ClientError) as error:
        print(f"skip  mail: not looked at: {type(error).__name__}", file=sys.stderr, flush=True)
        return ()


def _tell(check: Check) -> None:
    if check.todo:
        print(f"FAIL  {check.name}: {check.todo}", file=sys.stderr, flush=True)
    else:
        print(f"ok    {check.name}: {check.fact}", flush=True)
