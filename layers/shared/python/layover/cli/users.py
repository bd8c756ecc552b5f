"""`layover user add`: users of a deployment's Cognito pool, for an administrator on AWS."""

import re
import sys
from collections.abc import Callable
from typing import Any

from layover.cdk.deployed import find
from layover.cdk.settings import Settings

POOL = re.compile(r"https://cognito-idp\.([\w-]+)\.amazonaws\.com(?:\.cn)?/([\w-]+)")
Client = Callable[..., Any]
"""As `boto3.client`."""


class NotDone(Exception):
    """The message says why, and what to do."""


def add(email: str, stage: str, client: Client | None = None) -> int:
    """Make a user, who gets a first password by mail. The exit code."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        _add(email, stage, client or _boto3())
    except (NotDone, BotoCoreError) as error:
        print(f"layover: {error}", file=sys.stderr)
        return 1
    except ClientError as error:
        message = error.response.get("Error", {}).get("Message", "AWS refused")
        print(f"layover: {message}", file=sys.stderr)
        return 1
    print(f"{email} gets a mail with a first password, and signs in with: layover login --url URL")
    return 0


def _add(email: str, stage: str, client: Client) -> None:
    region, pool = _pool(stage, client("cloudformation"))
    cognito = client("cognito-idp", region_name=region)
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
        raise NotDone(f"{email} is a user already") from error


def _pool(stage: str, cloudformation: Any) -> tuple[str, str]:
    """Return region and id of the stage's user pool. Raises NotDone."""
    try:
        name = Settings.from_context({"stage": stage}).prefix
    except ValueError as error:
        raise NotDone(str(error)) from error
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
    return match[1], match[2]


def _boto3() -> Client:
    import boto3

    make: Client = boto3.client
    return make
