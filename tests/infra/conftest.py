"""Templates, synthesized once a session in the way in which the CDK's command line does it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cdk_kit import Synthesized
from e2e_kit import Brain, System
from fake_openai import FakeOpenAI, call, fail, say
from folders import folder
from socket_kit import Follower

ROOT = Path(__file__).parents[2]
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
        # No credentials, no region, no proxy, no home with a configuration.
        offline = {
            "PATH": os.environ["PATH"],
            "HOME": str(out),
            "CDK_OUTDIR": str(out),
            "CDK_CONTEXT_JSON": json.dumps(given),
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
            "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
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
        more = {"LAYOVER_LOCAL_PRELOAD": "call_recorder", "LAYOVER_RECORDED": str(notes)}
        with System(data / "system", brain, variables=more) as system:
            _one_of_everything(system, brain)
        return {f.name: frozenset(f.read_text().splitlines()) for f in notes.iterdir()}


def _one_of_everything(system: System, brain: Brain) -> None:
    """An approval and who follows it, a large result, a file, a cancel, a failure, a deletion."""
    ann = system.caller()
    thread = ann.thread()
    text = brain.plan(call("refund", order_id="o1", amount=1), call("dump", key="d1"), say("done"))
    run = ann.ask(thread, text)
    with Follower.of(ann) as socket:
        socket.subscribe(run["id"])
        ann.decide(run["id"], run["pending"][0]["tool_call_id"], "approve")
        socket.ended()
    assert ann.over(run["id"])["status"] == "success"
    stuck = ann.ask(thread, brain.plan(call("refund", order_id="o2", amount=1)))
    ann.want(202, "POST", f"/runs/{stuck['id']}/cancel", {})
    assert ann.over(stuck["id"])["status"] == "cancelled"
    assert ann.ask(thread, brain.plan(fail(400, "no")))["status"] == "failed"
    ann.want(201, "POST", "/files", {"name": "a.txt", "mime_type": "text/plain", "size": 2})
    ann.want(204, "DELETE", f"/threads/{thread}")
