"""`layover mfa`: an authenticator app as the second factor of one's own user, where it is optional.

Cognito's pages enroll one only where the pool requires it; elsewhere its API does, with one's own token."""

import webbrowser
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from layover.desk.cli.client import REFUSED, USAGE, ApiError
from layover.desk.cli.login import PORT, SIGN_IN_TIMEOUT_S, sign_in
from layover.desk.cli.users import POOL
from layover.desk.failures import report_failure

SCOPE = "openid aws.cognito.signin.user.admin"
"""A token that may change its own user, and may not call the API."""
ATTEMPTS = 3


@report_failure
def enroll(
    url: str,
    port: int = PORT,
    browse: Callable[[str], Any] = webbrowser.open,
    ask: Callable[[str], str] = input,
    patience_s: float = SIGN_IN_TIMEOUT_S,
) -> int:
    """Sign in only for this, show the secret, and check a first code. Returns the exit code."""
    signed_in = sign_in(url, port, browse, patience_s, scope=SCOPE)
    pool = POOL.fullmatch(signed_in.issuer)
    if pool is None:
        raise ApiError(f"users of {signed_in.issuer} get a second factor there", USAGE)
    add_factor(_cognito(pool[1]), signed_in.access, ask)
    print("from now on you are asked for a code of this app when you sign in")
    return 0


def add_factor(cognito: Any, access: str, ask: Callable[[str], str]) -> None:
    """Make a secret the second factor of the token's user, once a code of it has been right.

    Raises ApiError, and changes nothing then."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        secret = cognito.associate_software_token(AccessToken=access)["SecretCode"]
        print("add this to an authenticator app, as a link or by its secret:")
        print(f"  otpauth://totp/Layover?secret={quote(secret)}&issuer=Layover\n  {secret}")
        _verify(cognito, access, ask)
        cognito.set_user_mfa_preference(
            AccessToken=access, SoftwareTokenMfaSettings={"Enabled": True, "PreferredMfa": True}
        )
    except ClientError as error:
        message = error.response.get("Error", {}).get("Message", "no reason given")
        raise ApiError(f"the user pool refused: {message}", REFUSED) from error
    except BotoCoreError as error:
        raise ApiError(f"the user pool did not answer: {error}", REFUSED) from error


def _verify(cognito: Any, access: str, ask: Callable[[str], str]) -> None:
    for _ in range(ATTEMPTS):
        code = ask("the code that the app shows: ").strip()
        try:
            cognito.verify_software_token(AccessToken=access, UserCode=code)
        except (
            cognito.exceptions.EnableSoftwareTokenMFAException,
            cognito.exceptions.CodeMismatchException,
            cognito.exceptions.InvalidParameterException,
        ):
            print("that was not it")
            continue
        return
    raise ApiError("no code was right: nothing has changed", REFUSED)


def _cognito(region: str) -> Any:
    """A client without credentials: the token is the permission."""
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    return boto3.client(
        "cognito-idp", region_name=region, config=Config(signature_version=UNSIGNED)
    )
