"""The imports of the function's cold start."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEAVY = ("openai", "numpy", "psycopg", "boto3", "jsonschema", "user_agents", "moto", "starlette")
CODE = """
import sys
import functions.api.handler
answer = functions.api.handler.handler(
    {"version": "2.0", "rawPath": "/healthz", "rawQueryString": "", "headers": {},
     "requestContext": {"stage": "$default", "http": {"method": "GET", "path": "/healthz"}}}, None)
assert answer["statusCode"] == 200, answer
print(*sys.modules)
"""


def test_neither_models_nor_databases_nor_agents_are_loaded_before_they_are_needed() -> None:
    path = [str(ROOT), str(ROOT / "functions"), str(ROOT / "layers/shared/python")]
    found = subprocess.run(
        [sys.executable, "-c", CODE],
        env={"PYTHONPATH": ":".join(path), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    loaded = {name.split(".")[0] for name in found.stdout.split()}
    assert loaded.isdisjoint(HEAVY), loaded.intersection(HEAVY)
    assert "aws_lambda_powertools.event_handler.openapi.swagger_ui" not in found.stdout.split()
