"""`layover mfa`: against moto's Cognito, and a provider on loopback."""

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from layover.desk.cli.client import ApiError
from layover.desk.cli.second_factor import ATTEMPTS, add_factor, enroll
from support.aws.mocked import make_client
from support.providers.oidc import Browser, Deployment

PASSWORD = "Secret-12345"


@pytest.fixture
def cognito() -> Iterator[Any]:
    with mock_aws():
        yield make_client("cognito-idp")


def signed_in(cognito: Any) -> tuple[str, str]:
    """The pool, and an access token of its one user."""
    pool = cognito.create_user_pool(PoolName="layover-dev")["UserPool"]["Id"]
    client = cognito.create_user_pool_client(
        UserPoolId=pool, ClientName="c", ExplicitAuthFlows=["ALLOW_ADMIN_USER_PASSWORD_AUTH"]
    )["UserPoolClient"]["ClientId"]
    cognito.admin_create_user(UserPoolId=pool, Username="ann", MessageAction="SUPPRESS")
    cognito.admin_set_user_password(
        UserPoolId=pool, Username="ann", Password=PASSWORD, Permanent=True
    )
    answer = cognito.admin_initiate_auth(
        UserPoolId=pool,
        ClientId=client,
        AuthFlow="ADMIN_USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": "ann", "PASSWORD": PASSWORD},
    )
    return pool, answer["AuthenticationResult"]["AccessToken"]


def factors(cognito: Any, pool: str) -> list[str]:
    found: list[str] = cognito.admin_get_user(UserPoolId=pool, Username="ann").get(
        "UserMFASettingList", []
    )
    return found


def test_factor_is_added_once_a_code_was_right(
    cognito: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pool, access = signed_in(cognito)
    add_factor(cognito, access, lambda _: " 123456 ")
    assert factors(cognito, pool) == ["SOFTWARE_TOKEN_MFA"]
    assert "otpauth://totp/Layover?secret=" in capsys.readouterr().out


def test_codes_that_are_wrong_change_nothing(
    cognito: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[str] = []

    class Strict:
        """moto takes every code: this refuses them as Cognito does."""

        exceptions = cognito.exceptions

        def __getattr__(self, name: str) -> Any:
            return getattr(cognito, name)

        def verify_software_token(self, *, AccessToken: str, UserCode: str) -> Any:
            codes.append(UserCode)
            said = {"Error": {"Code": "EnableSoftwareTokenMFAException", "Message": "wrong"}}
            raise self.exceptions.EnableSoftwareTokenMFAException(said, "VerifySoftwareToken")

    pool, access = signed_in(cognito)
    with pytest.raises(ApiError, match="nothing has changed"):
        add_factor(Strict(), access, lambda _: "000000")
    assert len(codes) == ATTEMPTS
    assert factors(cognito, pool) == []


def test_token_of_nobody_is_refused(cognito: Any) -> None:
    with pytest.raises(ApiError, match="refused"):
        add_factor(cognito, "nobodys", lambda _: "123456")


def test_users_of_another_provider_get_theirs_there(capsys: pytest.CaptureFixture[str]) -> None:
    with Deployment() as deployment, Browser() as browser:
        assert enroll(deployment.url, 0, browser, lambda _: "123456", patience_s=10) == 2
        assert deployment.issuer is not None
        assert deployment.issuer in capsys.readouterr().err
        # A token for this alone: it may not call the API.
        assert deployment.scopes == ["openid aws.cognito.signin.user.admin"]
