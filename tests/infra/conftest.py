"""Templates of every form of the deployment, and what a running system asks of AWS."""

import os
import shutil
from collections.abc import Mapping

import pytest

from support.aws import synthesis
from support.aws.recorded_scenarios import Recorded, everything
from support.aws.templates import Synthesized
from support.providers.openai import FakeOpenAI
from support.system.folders import folder
from support.system.system import Brain

os.environ |= synthesis.QUIET


def synthesized(form: str) -> Synthesized:
    """The form's templates."""
    if shutil.which("node") is None:
        pytest.skip("the CDK needs Node on the path")
    return synthesis.synthesized(form)


@pytest.fixture(scope="session")
def vpc() -> Synthesized:
    """With everything that can be switched on."""
    return synthesized("vpc")


@pytest.fixture(scope="session")
def plain() -> Synthesized:
    """With all defaults, and an OIDC provider of the deployer's own."""
    return synthesized("plain")


@pytest.fixture(scope="session")
def gateway() -> Synthesized:
    """With AWS's own NAT."""
    return synthesized("gateway")


@pytest.fixture(scope="session")
def guest() -> Synthesized:
    """In a VPC of the deployer's, with all that an earlier stack left."""
    return synthesized("guest")


@pytest.fixture(scope="session")
def production() -> Synthesized:
    """Of the size that people depend on."""
    return synthesized("production")


@pytest.fixture(scope="session")
def ipv6() -> Synthesized:
    """With a way out that costs nothing."""
    return synthesized("ipv6")


@pytest.fixture(scope="session")
def bedrock() -> Synthesized:
    """With the models of Bedrock."""
    return synthesized("bedrock")


def own(app: str) -> Synthesized:
    """The stack with the construct of an app of one's own."""
    if shutil.which("node") is None:
        pytest.skip("the CDK needs Node on the path")
    folder = synthesis.own_apps()
    return Synthesized(folder / app, (folder / synthesis.OUTPUT).read_text(), "shop")


@pytest.fixture(scope="session")
def ten_lines() -> Synthesized:
    """The first example of the construct's page, next to the VPC of another stack."""
    return own("ten_lines")


@pytest.fixture(scope="session")
def approvals() -> Synthesized:
    """The page's second example."""
    return own("approvals")


@pytest.fixture(scope="session")
def everything_given() -> Synthesized:
    """With a VPC, a cluster and a user pool that are there already, tools and a host name."""
    return own("everything")


@pytest.fixture(scope="session")
def connected() -> Synthesized:
    """With agents that work with accounts of their users."""
    return own("connected")


@pytest.fixture(scope="session")
def recorded() -> Mapping[str, frozenset[str]]:
    """The calls of each function in a running system, as `call_recorder` writes them."""
    with FakeOpenAI() as provider, folder("recorded") as data:
        brain = Brain(provider)
        notes = data / "notes"
        notes.mkdir()
        with Recorded(data / "system", brain, notes) as system:
            everything(system)
        return {f.name: frozenset(f.read_text().splitlines()) for f in notes.iterdir()}
