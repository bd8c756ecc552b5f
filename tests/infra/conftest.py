"""Templates, synthesized once a session in the way in which the CDK's command line does it."""

import os
import shutil
from collections.abc import Callable, Mapping

import pytest

from support.aws import synthesis
from support.aws.recorded_scenarios import Recorded, everything
from support.aws.templates import Synthesized
from support.providers.openai import FakeOpenAI
from support.system.folders import folder
from support.system.system import Brain

os.environ |= synthesis.QUIET


Synthesize = Callable[..., Synthesized]


@pytest.fixture(scope="session")
def synthesize() -> Synthesize:
    """`synthesize(stage="prod", ...)`: the app with this context. Fails with what the app said."""
    if shutil.which("node") is None:
        pytest.skip("the CDK needs Node on the path")
    return lambda **context: synthesis.synthesize(context)


@pytest.fixture(scope="session")
def vpc(synthesize: Synthesize) -> Synthesized:
    """With everything that can be switched on, and nothing that outlives the stack."""
    return synthesize(
        retain="false",
        stage="test",
        origins="https://a.example,https://b.example",
        nat_ami="ami-0123456789abcdef0",
        model="openai/some-model",
        embedder_model="openai/some-embedder",
        title_model="openai/some-titler",
        observer_model="openai/some-observer",
        extractor_model="openai/some-extractor",
        last_messages="30",
        semantic_recall_top_k="4",
        observer_message_tokens="20000",
        reflector_observation_tokens="30000",
        node_memory_days="90",
        run_retention_days="60",
        thread_retention_days="365",
        entry_retention_days="180",
        log_level="WARNING",
        openai_base_url="https://models.example/v1",
        alarms_email="ann@example.com",
        budget_usd="20",
        machine_client="true",
        docs="true",
        max_user_waits="5",
        daily_tokens="100000",
        daily_cost_usd="2.5",
        groups_claim="groups",
        audit_days="800",
    )


@pytest.fixture(scope="session")
def plain(synthesize: Synthesize) -> Synthesized:
    """An OIDC provider of the deployer's own, and all defaults."""
    return synthesize(
        issuer="https://id.example/",
        audience="https://layover.example",
        client_id="people",
        scope="use:layover",
        api_concurrency="0",
    )


@pytest.fixture(scope="session")
def gateway(synthesize: Synthesize) -> Synthesized:
    """AWS's own NAT, no second factor, and the stack's own users, protected."""
    return synthesize(nat="gateway", mfa="off")


@pytest.fixture(scope="session")
def guest(synthesize: Synthesize) -> Synthesized:
    """In a VPC of the deployer's, with all that an earlier stack left."""
    return synthesize(
        nat="none",
        vpc_id="vpc-0123456789abcdef0",
        function_subnets="subnet-0a,subnet-0b",
        database_subnets="subnet-0c,subnet-0d",
        mfa="required",
        adopt_table="layover-before",
        adopt_bucket="layover-before-bucket",
        adopt_user_pool="eu-west-1_Before",
        restore_snapshot="layover-before-snapshot",
    )


@pytest.fixture(scope="session")
def recorded() -> Mapping[str, frozenset[str]]:
    """What each function did in a running system, as `call_recorder` writes it."""
    with FakeOpenAI() as provider, folder("recorded") as data:
        brain = Brain(provider)
        notes = data / "notes"
        notes.mkdir()
        with Recorded(data / "system", brain, notes) as system:
            everything(system)
        return {f.name: frozenset(f.read_text().splitlines()) for f in notes.iterdir()}
