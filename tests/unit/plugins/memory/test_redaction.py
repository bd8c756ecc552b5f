"""Secrets stay out of memory."""

import time

import pytest

from layover.plugins.memory.learns.text.redaction import (
    REDACTED,
    is_secret_key,
    redact,
    redact_value,
)


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
        ("Kennwort: Lindenhof77!", "Lindenhof77!"),
        ("mein Passwort ist Tanne!9", "Tanne!9"),
        ("la contraseña es Olivo_22", "Olivo_22"),
        ("mot de passe : Chêne-4", "Chêne-4"),
        ("a senha é Figo#7", "Figo#7"),
        ("мой пароль: Берёза5", "Берёза5"),  # noqa: RUF001
        ("我的密码是 abc123，谢谢", "abc123"),  # noqa: RUF001
        ("パスワードはkaede9です", "kaede9"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", "MIIE"),
        ("SECRET_KEY = 'abc'", "abc"),
        ("accessToken: xyz", "xyz"),
        ("userPassword=abc1", "abc1"),
        ("DB_PASSWORD_PROD=xyz", "xyz"),
        ("PGPASSWORD=xyz psql", "xyz"),
        ("url: dbPassword1=xyz", "xyz"),
        ("passwords: ['abc', 'def']", "def"),
        ("credentials: ann:xyz", "xyz"),
        ("cookie: sid=abc; theme=xyz", "xyz"),
        ('{\\"password\\": \\"abc xyz\\"}', "xyz"),
        ('password: str = "abc xyz"', "xyz"),
        ("os.environ['DB_PASSWORD'] = 'xyz'", "xyz"),
        ("password hunter2", "hunter2"),
        ("--db-password swordfish", "swordfish"),
        ("my password is swordfish", "swordfish"),
        ("my PIN is 4821 for the door", "4821"),
        ("my pin is 4821 please", "4821"),
        ("the pin is 4821, 3 metres from here", "4821"),
        ("the pin is 4821 in the app", "4821"),
        ("the pass is 2410. Metres away", "2410"),
        ("the pass is 2410m", "2410m"),
        ("the password is 2410 metres", "2410"),
        ("the password is 12 monkeys", "12"),
        ("token: 2410abc metres", "2410abc"),
        ("the PIN is 4821 m", "4821"),
        ("my pin is 4821 so long", "4821"),
        ("the root password was changed to swordfish.", "swordfish"),
    ],
)
def test_a_secret_is_cut_out_of_a_text(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redact(text)
    assert REDACTED in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "I forgot my password again",
        "the password is wrong",
        "the password is expired",
        "the password was missing, not set",
        "das Passwort ist falsch",
        "token of love",
        "a pinball machine",
        "token count: 512",
        "token_count: 512, max_tokens=100",
        "pin the version",
        "tokenizer: x",
        "secretary: Ann",
        "a password of 12 characters, or password sha256",
        "pass user_id to it",
        "the token is opaque",
        "The pass is 2410 metres high",
        "The pass is 2,410 m high, they say",
        "Der Pass ist 2410 Meter hoch",
        "the day pass is 40 euros for adults",
        "the pass is 3 lanes wide",
        "The pin is 12 mm thick",
        "the pin is 1.5 cm long",
        "the axle pin was 250 grams heavier",
        "the token is 32 bytes",
        "The token is 90 days old",
        "the access key is 20 characters long",
        "the password was 12 characters",
        "height of the pass: 2410 metres",
    ],
)
def test_talk_about_secrets_is_none(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "apiKey",
        "X-Auth-Token",
        "client_secret",
        "PIN",
        "passwords",
        "credentials",
        "Set-Cookie",
        "signing_key",
        "dbPassword1",
        "APIKey",
    ],
)
def test_fields_by_these_names_are_secret(key: str) -> None:
    assert is_secret_key(key)


@pytest.mark.parametrize(
    "key", ["name", "tokens", "token_count", "secretary", "shipping", "passenger", ""]
)
def test_fields_by_other_names_are_not(key: str) -> None:
    assert not is_secret_key(key)


def test_objects_lose_their_secrets_at_every_depth() -> None:
    value = {"a": [{"password": {"old": 1}, "note": "token: abc"}], "n": 1, "secret": None}
    assert redact_value(value) == {
        "a": [{"password": REDACTED, "note": f"token: {REDACTED}"}],
        "n": 1,
        "secret": None,
    }


@pytest.mark.parametrize(
    "text",
    [
        "a-" * 20_000,
        "eyJ-" * 20_000,
        "password " * 8_000,
        "pin=" * 8_000,
        "password" * 5_000,
        "password [" * 4_000,
        "a password is " * 3_000,
    ],
)
def test_a_long_run_of_words_costs_no_more_than_its_length(text: str) -> None:
    short, long = (_seconds(text[: len(text) // 8]), _seconds(text))
    assert long < max(short * 40, 0.2)


def _seconds(text: str) -> float:
    return min(_once(text) for _ in range(3))


def _once(text: str) -> float:
    began = time.process_time()
    redact(text)
    return time.process_time() - began
