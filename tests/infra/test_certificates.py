"""The roots of RDS: a bundle with which functions would not trust the database goes nowhere."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import botocore
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from layover.desk.cdk import build
from layover.desk.cdk.certificates import MAX_AGE, MIN_LIFETIME, URL, fetch, problem
from support.certificates import self_signed

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 11, 1, tzinfo=UTC)
YEARS = timedelta(days=3650)


def root(region: str, end: datetime = NOW + YEARS) -> str:
    """A root as Amazon names them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Amazon Web Services, Inc."),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Amazon RDS {region} Root CA ECC384 G1"),
        ]
    )
    return self_signed(key, name, NOW - YEARS, end).decode()


def other_roots() -> str:
    """The web's, that botocore brings along."""
    return (Path(botocore.__file__).parent / "cacert.pem").read_text()


@pytest.mark.parametrize(
    ("bundle", "says"),
    [
        ("", "is not a list of certificates"),
        ("<html>AWS is away</html>", "is not a list of certificates"),
        (
            "-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n",
            "is not a list of certificates",
        ),
        (root("eu-west-1") + root("eu-west-1")[:-40], "is not a list of certificates"),
        (other_roots(), "has no roots of RDS"),
        (root("us-east-1"), "has no roots of eu-west-1"),
        (root("eu-west-1", NOW - timedelta(days=1)) + root("us-east-1"), "is old"),
        (root("eu-west-1", NOW + MIN_LIFETIME - timedelta(days=1)), "is old"),
    ],
    ids=["empty", "page", "wrong", "cut", "other", "elsewhere", "ended", "ending"],
)
def test_bundle_that_would_not_do_is_named(bundle: str, says: str) -> None:
    wrong = problem(bundle, NOW, "eu-west-1")
    assert wrong is not None
    assert says in wrong


def test_bundle_with_a_root_that_lives_is_fine() -> None:
    """AWS leaves roots that have ended beside the ones that took their place."""
    bundle = root("eu-west-1", NOW - YEARS / 2) + root("eu-west-1") + root("us-east-1")
    assert problem(bundle, NOW, "eu-west-1") is None
    assert problem(bundle, NOW) is None


def test_layer_is_not_built_with_an_old_bundle(tmp_path: Path) -> None:
    (tmp_path / "roots.pem").write_text(root("eu-west-1", NOW - YEARS / 2))
    with pytest.raises(build.BuildFailed, match=r"roots\.pem is old"):
        build._check_certificates(tmp_path / "roots.pem")


def test_layer_without_certificates_is_not_deployed(tmp_path: Path) -> None:
    code = (
        "from aws_cdk import App, Stack\n"
        "from layover.desk.cdk.constructs.layer import Layer\n"
        "from layover.desk.cdk.settings import Settings\n"
        f"settings = Settings(layer={str(tmp_path)!r}, code={str(tmp_path)!r})\n"
        "Layer(Stack(App(analytics_reporting=False), 'S'), 'L', settings)\n"
    )
    quiet = {"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**quiet, **_environment()},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 1
    assert "has no certificates of RDS" in run.stderr


def _environment() -> dict[str, str]:
    if shutil.which("node") is None:
        pytest.skip("the CDK needs Node on the path")
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}


def away(url: str) -> bytes:
    raise OSError("no route to host")


def test_bundle_that_is_young_is_not_fetched_again(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("BEGIN CERTIFICATE")
    assert fetch(bundle, datetime.now(UTC), away) == f"{bundle} is there"
    assert bundle.read_text() == "BEGIN CERTIFICATE"


def test_bundle_that_is_older_than_thirty_days_is_fetched_again(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("old")
    later = datetime.now(UTC) + MAX_AGE + timedelta(days=1)
    fetch(bundle, later, lambda url: b"BEGIN CERTIFICATE new")
    assert bundle.read_text() == "BEGIN CERTIFICATE new"
    assert [*tmp_path.iterdir()] == [bundle]


def test_bundle_comes_from_aws_into_a_folder_that_is_made(tmp_path: Path) -> None:
    asked: list[str] = []

    def download(url: str) -> bytes:
        asked.append(url)
        return b"BEGIN CERTIFICATE new"

    bundle = tmp_path / "build" / "bundle.pem"
    assert fetch(bundle, NOW, download) == f"fetched {bundle}"
    assert bundle.read_text() == "BEGIN CERTIFICATE new"
    assert asked == [URL]
    assert [*bundle.parent.iterdir()] == [bundle]


def test_old_bundle_does_where_there_is_no_network(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("old")
    told = fetch(bundle, datetime.now(UTC) + MAX_AGE + timedelta(days=1), away)
    assert told.endswith("older than 30 days, and no newer one could be fetched (no route to host)")
    assert bundle.read_text() == "old"


@pytest.mark.parametrize("answer", [away, lambda url: b"<html>sign in to the network</html>"])
def test_bundle_that_does_not_come_is_named_with_the_way_out(
    tmp_path: Path, answer: Callable[[str], bytes]
) -> None:
    bundle = tmp_path / "bundle.pem"
    with pytest.raises(OSError, match=f"fetch it where there is a network, and put it at {bundle}"):
        fetch(bundle, NOW, answer)
    assert not bundle.exists()
