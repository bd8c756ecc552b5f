"""Templates, synthesized once a session in the way in which the CDK's command line does it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from support.aws.recorded_scenarios import Recorded, everything
from support.aws.templates import Synthesized
from support.providers.openai import FakeOpenAI
from support.system.folders import folder
from support.system.system import Brain

ROOT = Path(__file__).parents[2]
QUIET = {
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
}
os.environ |= QUIET
SYNTH_LIMIT_S = 240
"""A synthesis takes 10 s on a machine that does nothing else."""


Synthesize = Callable[..., Synthesized]


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    """`synthesize(database="vpc", ...)`: the app with this context. Fails with what the app said."""
    if shutil.which("node") is None:
        pytest.skip("the CDK needs Node on the path")
    built = tmp_path_factory.mktemp("built")
    for name in ("layer", "functions"):
        (built / name).mkdir()
        (built / name / "stands_for_the_build.py").touch()

    def run(**context: str) -> Synthesized:
        out = tmp_path_factory.mktemp("cdk.out")
        given = json.loads((ROOT / "cdk.json").read_text())["context"] | context
        given |= {"layer": str(built / "layer"), "code": str(built / "functions")}
        # Not what somebody keeps for stages of their own.
        given.setdefault("stages", str(built))
        # No credentials, no region, no proxy, no home with a configuration.
        offline = {
            "PATH": os.environ["PATH"],
            "HOME": str(out),
            "CDK_OUTDIR": str(out),
            "CDK_CONTEXT_JSON": json.dumps(given),
            **QUIET,
        }
        done = subprocess.run(
            [sys.executable, "-m", "infra.app"],
            cwd=ROOT,
            env=offline,
            capture_output=True,
            text=True,
            timeout=SYNTH_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
        return Synthesized(out, done.stdout + done.stderr)

    return run


@pytest.fixture(scope="session")
def vpc(synthesize: Synthesize) -> Synthesized:
    """`database=vpc`, with everything that can be switched on, and nothing that outlives the stack."""
    return synthesize(
        database="vpc",
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
        log_level="WARNING",
        openai_base_url="https://models.example/v1",
        alarms_email="ann@example.com",
        budget_usd="20",
        machine_client="true",
        daily_tokens="100000",
        daily_cost_usd="2.5",
    )


@pytest.fixture(scope="session")
def express(synthesize: Synthesize) -> Synthesized:
    """`database=express`, an OIDC provider of the deployer's own, and all defaults."""
    return synthesize(
        database="express",
        issuer="https://id.example/",
        audience="https://layover.example",
        client_id="people",
        scope="use:layover",
        api_concurrency="0",
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
