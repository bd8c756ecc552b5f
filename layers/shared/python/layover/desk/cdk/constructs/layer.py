"""The code that all functions share: one layer of libraries, one asset of code."""

from pathlib import Path

from aws_cdk import RemovalPolicy
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from layover.desk.cdk.settings import Settings

RUNTIME = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE = lambda_.Architecture.ARM_64


class Layer(Construct):
    """The folders of `layover.desk.cdk.build`. Raises FileNotFoundError with the command that makes them."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(scope, id)
        self.version = lambda_.LayerVersion(
            self,
            "Version",
            layer_version_name=f"{settings.prefix}-runtime",
            code=_layer_asset(settings.layer),
            compatible_runtimes=[RUNTIME],
            compatible_architectures=[ARCHITECTURE],
            description="Layover and its locked dependencies",
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.code = _asset(settings.code)


def _layer_asset(folder: str) -> lambda_.Code:
    """Return the layer's asset. Raises FileNotFoundError for one without Amazon's roots: no function would
    trust the database, and each would fail."""
    code = _asset(folder)
    if not (Path(folder) / "certificates" / "rds.pem").is_file():
        raise FileNotFoundError(
            f"{folder} has no certificates of RDS: `layover synth` and `layover deploy` fetch them"
        )
    return code


def _asset(folder: str) -> lambda_.Code:
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"{folder} is not built yet: run `make layer`")
    return lambda_.Code.from_asset(folder)
