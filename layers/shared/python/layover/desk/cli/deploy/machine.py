"""This machine, as a deployment needs it: programs, packages, and the AWS account of its credentials."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from layover.project import Project

BOOTSTRAP = "/cdk-bootstrap/{qualifier}/version"
"""SSM parameter that `cdk bootstrap` makes."""
_SIGN_IN = "sign in (`aws configure sso`, then `aws sso login`), or name a profile (--profile, AWS_PROFILE)"
_NO_CREDENTIALS = f"no AWS credentials: {_SIGN_IN}"
_SIGN_IN_AGAIN = "the AWS credentials have expired: sign in again, for example with `aws sso login`"
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
_ANSWER_S = 10


class NoAccount(Exception):
    """The credentials lead to no account. The message says what to do."""


@dataclass(frozen=True)
class Account:
    """An account and region. `bootstrap`: the version of the CDK's own stack; "" where there is none, None
    where the credentials may not look."""

    id: str
    region: str
    bootstrap: str | None


class Machine:
    """The answers of this machine to what a deployment asks."""

    def program(self, name: str) -> str | None:
        """Return the path of a program."""
        return shutil.which(name)

    def output(self, *command: str) -> str:
        """Return what a program prints; "" if it fails."""
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return run.stdout.strip() if run.returncode == 0 else ""

    def has_package(self, name: str) -> bool:
        """Return whether a Python package can be imported."""
        return find_spec(name) is not None

    def has_terminal(self) -> bool:
        """Return whether somebody can answer a question."""
        return sys.stdin.isatty() and sys.stdout.isatty()

    def import_agents(self, project: Project, variables: Mapping[str, str]) -> str | None:
        """Return why the project's agents cannot be imported with these variables; None: they can."""
        from layover.desk.cli.deploy.stage_check import loader

        return loader(project)(variables)

    def account(self, profile: str | None, region: str | None, qualifier: str) -> Account:
        """Return the account of the credentials, as the bootstrap of this qualifier has made it. Raises
        NoAccount."""
        import boto3
        from botocore.exceptions import ProfileNotFound

        try:
            session = boto3.Session(profile_name=profile, region_name=region)
        except ProfileNotFound as error:
            text = "no AWS profile {profile!r}: `aws configure list-profiles` lists them"
            raise NoAccount(text.format(profile=profile or "of AWS_PROFILE")) from error
        return account_of(session, qualifier)


def account_of(session: Any, qualifier: str) -> Account:
    """Return the account of a boto3 session. Raises NoAccount."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    patience = Config(
        connect_timeout=_ANSWER_S, read_timeout=_ANSWER_S, retries={"total_max_attempts": 2}
    )
    try:
        if session.region_name is None:
            text = "no AWS region: set `region` under [deploy] of layover.toml, or AWS_REGION"
            raise NoAccount(text if session.get_credentials() else f"{text}; {_NO_CREDENTIALS}")
        identity = session.client("sts", config=patience).get_caller_identity()
    except NoCredentialsError as error:
        raise NoAccount(_NO_CREDENTIALS) from error
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _EXPIRED:
            raise NoAccount(_SIGN_IN_AGAIN) from error
        raise NoAccount(f"AWS refuses the credentials ({code}): sign in again") from error
    except BotoCoreError as error:
        # An SSO session that ended is one of these, and a package that the profile's sign-in needs.
        text = f"the AWS credentials cannot be used ({type(error).__name__}): {error}"
        raise NoAccount(f"{text} Otherwise {_SIGN_IN}") from error
    ssm = session.client("ssm", config=patience)
    name = BOOTSTRAP.format(qualifier=qualifier)
    try:
        version = str(ssm.get_parameter(Name=name)["Parameter"]["Value"])
    except ssm.exceptions.ParameterNotFound:
        version = ""
    except (ClientError, BotoCoreError):
        return Account(identity["Account"], session.region_name, None)
    return Account(identity["Account"], session.region_name, version)
