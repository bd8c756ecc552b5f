"""Secrets stay out of memory."""

import pytest

from layover.memory.secrets import REDACTED, is_secret_key, redact, redacted


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("my password is hunter2, thanks", "hunter2"),
        ("password: correct horse", "correct"),
        ('{"api_key": "abc def"}', "abc def"),
        ("API key = 'xyz'", "xyz"),
        ("Authorization: Bearer abc.def", "abc.def"),
        ("curl -H 'bearer abcdefghijklmnop'", "abcdefghijklmnop"),
        ("db_password=s3cret", "s3cret"),
        ("postgres://ann:pass@db.test/x", "ann:pass"),
        ("use sk-abcdefghijklmnopqrst now", "sk-abcdefghijklmnopqrst"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abc", "eyJhbGciOiJIUzI1"),
        ("my PIN is 4821", "4821"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", "MIIE"),
    ],
)
def test_a_secret_is_cut_out_of_a_text(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redact(text)
    assert REDACTED in redact(text)


@pytest.mark.parametrize(
    "text",
    ["I forgot my password again", "the password is wrong", "token of love", "a pinball machine"],
)
def test_talk_about_secrets_is_none(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("key", ["password", "apiKey", "X-Auth-Token", "client_secret", "PIN"])
def test_fields_by_these_names_are_secret(key: str) -> None:
    assert is_secret_key(key)


@pytest.mark.parametrize("key", ["name", "tokens", "shipping", "passenger", ""])
def test_fields_by_other_names_are_not(key: str) -> None:
    assert not is_secret_key(key)


def test_objects_lose_their_secrets_at_every_depth() -> None:
    value = {"a": [{"password": {"old": 1}, "note": "token: abc"}], "n": 1, "secret": None}
    assert redacted(value) == {
        "a": [{"password": REDACTED, "note": f"token: {REDACTED}"}],
        "n": 1,
        "secret": None,
    }
