"""What would make a deployment fail after a quarter of an hour, asked before: `python -m infra.preflight`."""

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from infra.settings import Settings

LEFT = 100
"""Concurrency that Lambda wants unreserved, in an account of the ordinary size."""


def context(arguments: Sequence[str]) -> dict[str, str]:
    """`-c name=value` and `--context name=value` of the CDK's command line."""
    pairs = pairwise(arguments)
    given = (value.split("=", 1) for flag, value in pairs if flag in ("-c", "--context"))
    return {pair[0]: pair[1] for pair in given if len(pair) == 2}


def too_much(settings: Settings, limit: int) -> str | None:
    """Why an account with this concurrency cannot set aside what the settings want; None: it can."""
    wanted = settings.api_concurrency
    if not wanted or limit - wanted >= LEFT:
        return None
    return (
        f"this account may run {limit} functions at once, too few to set aside {wanted} for the API: "
        "deploy with `-c api_concurrency=0`, or ask AWS for more"
    )


def concurrency(client: Any) -> int:
    """Of the account in this region."""
    return int(client.get_account_settings()["AccountLimit"]["ConcurrentExecutions"])


def main(arguments: Sequence[str]) -> int:
    """The exit code. Whoever may not ask for the quota is not held up."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    settings = Settings.from_context(context(arguments).get)
    try:
        problem = too_much(settings, concurrency(boto3.client("lambda")))
    except (BotoCoreError, ClientError) as error:
        print(f"the account's quota was not looked up: {error}", file=sys.stderr)
        return 0
    if problem is not None:
        print(problem, file=sys.stderr)
    return int(problem is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
