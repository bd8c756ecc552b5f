"""`layover user add`: users of a deployment's Cognito pool and their groups, for its operator."""

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from layover.desk.cdk.deployed import find
from layover.desk.cdk.settings import Settings
from layover.desk.failures import CommandFailed, report_failure
from layover.errors import unknown_name
from layover.project import DeploySettings, Project

POOL = re.compile(r"https://cognito-idp\.([\w-]+)\.amazonaws\.com(?:\.cn)?/([\w-]+)")
PLAIN = re.compile(r"[^\s,;=]+")
"""A name in a `dev:` token."""
Client = Callable[..., Any]
"""As `boto3.client`."""


class NotDone(CommandFailed):
    """The message says why, and what to do."""

    exit_code = 1


@report_failure
def token(name: str, groups: Sequence[str] = ()) -> int:
    """Print who stands for such a user on this machine, where every name is a user. The exit code."""
    who = f"{name};groups={','.join(groups)}" if groups else name
    wrong = next((each for each in (name, *groups) if not PLAIN.fullmatch(each)), None)
    if wrong is not None:
        text = "is not a name on this machine: blanks, commas and semicolons separate there"
        raise NotDone(f"{wrong!r} {text}")
    print(f"nothing is made: on this machine every name is a user. Authorization: Bearer dev:{who}")
    print(f"layover chat --user {shlex.quote(who)}")
    return 0


@report_failure
def add(
    email: str,
    stage: str | None,
    client: Client | None = None,
    groups: Sequence[str] = (),
    project: Project | None = None,
) -> int:
    """Make a user, who gets a first password by mail, and put them into groups that the pool has. A user who
    is there already only gets the groups. `project`: has the stage, profile and region, where none is named.
    The exit code."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

    groups = tuple(dict.fromkeys(groups))
    at = project.settings.deploy if project is not None else DeploySettings()
    try:
        name = prefix_of(at.stage if stage is None else stage, project)
        url = _add(email, name, client or client_at(at), groups)
    except (NoCredentialsError, NoRegionError) as error:
        raise NotDone(_without(error)) from error
    except BotoCoreError as error:
        raise NotDone(str(error)) from error
    except ClientError as error:
        message = error.response.get("Error", {}).get("Message", "AWS refused")
        raise NotDone(message) from error
    if groups:
        print(f"{email} is in {', '.join(groups)}; tokens know a group from the next sign-in on")
    if url is not None:
        print(
            f"{email} gets a mail with a first password, and signs in at {url} (the console), or with: "
            f"layover login --url {url}"
        )
    return 0


def _add(email: str, name: str, client: Client, groups: Sequence[str]) -> str | None:
    """Return where a new user signs in; None for one who is there already. Nothing is made if a group is not
    there. `name`: of the system (`shop-prod`)."""
    region, pool, url = pool_of(name, client("cloudformation"))
    cognito = client("cognito-idp", region_name=region)
    if groups:
        _check_groups(groups, pool, cognito)
    is_new = _make(email, pool, cognito, has_groups=bool(groups))
    for group in groups:
        cognito.admin_add_user_to_group(UserPoolId=pool, Username=email, GroupName=group)
    return url if is_new else None


def _check_groups(groups: Sequence[str], pool: str, cognito: Any) -> None:
    """Raise NotDone for a group that the pool does not have: one with a mistyped name would approve
    nothing."""
    pages = cognito.get_paginator("list_groups").paginate(UserPoolId=pool)
    names = sorted(each["GroupName"] for page in pages for each in page["Groups"])
    wrong = next((group for group in groups if group not in names), None)
    if wrong is None:
        return
    raise NotDone(
        f"{unknown_name('group', wrong, names)} A stack makes the groups that Approval(by=) of its agents "
        "and the setting `groups` name: deploy it first. In a pool of yours: aws cognito-idp create-group "
        f"--user-pool-id {pool} --group-name {shlex.quote(wrong)}"
    )


def _make(email: str, pool: str, cognito: Any, *, has_groups: bool) -> bool:
    try:
        cognito.admin_create_user(
            UserPoolId=pool,
            Username=email,
            UserAttributes=[
                {"Name": "email", "Value": email},
                # An operator vouches for it: without that no user can recover a password.
                {"Name": "email_verified", "Value": "true"},
            ],
            DesiredDeliveryMediums=["EMAIL"],
        )
    except cognito.exceptions.UsernameExistsException as error:
        if has_groups:
            return False
        raise NotDone(f"{email} is a user already; --group puts them into a group") from error
    return True


def _without(error: Exception) -> str:
    """Return what to do where there is no region or no credentials."""
    if "region" in str(error).lower():
        return "no AWS region: set `region` under [deploy] of layover.toml, or AWS_REGION"
    return (
        "no AWS credentials: sign in (`aws configure sso`, then `aws sso login`), or name a profile with "
        "AWS_PROFILE"
    )


def prefix_of(stage: str, project: Project | None) -> str:
    """Return the name of a stage's system. Raises NotDone."""
    try:
        root = None if project is None else project.root
        return Settings.from_context({"stage": stage}, root=root).prefix
    except ValueError as error:
        raise NotDone(str(error)) from error


def pool_of(name: str, cloudformation: Any) -> tuple[str, str, str]:
    """Return region and id of the system's user pool, and the URL of its API. Raises NotDone."""
    deployed = find(name, cloudformation)
    if deployed is None:
        raise NotDone(
            f"no stack of this account and region has {name}: check --stage, AWS_PROFILE and AWS_REGION, and "
            "run the command in the folder of the project"
        )
    issuer = deployed.outputs.get("Issuer", "")
    match = POOL.fullmatch(issuer)
    if match is None:
        raise NotDone(f"{name} has no user pool: its users are those of {issuer}")
    return match[1], match[2], deployed.outputs["ApiUrl"]


def client_at(deploy: DeploySettings) -> Client:
    """Return `client` of a session where the project is deployed. Raises botocore's errors."""
    import boto3

    make: Client = boto3.Session(profile_name=deploy.profile, region_name=deploy.region).client
    return make
