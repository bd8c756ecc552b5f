"""`python -m support.aws.synthesize FOLDER BUILT`: every form of FOLDER/forms.json, each in a folder of its
name, with the layer and the functions of BUILT."""

import json
import sys
from pathlib import Path

from aws_cdk import App

from infra.app import define
from support.aws.forms import GIVEN


def main(folder: Path, built: Path) -> None:
    """As the CDK's command line does it: what is given comes over what cdk.json has."""
    defaults = json.loads(Path("cdk.json").read_text())["context"]
    # Not the settings that a deployer keeps for their own stages.
    ours = {"layer": f"{built}/layer", "code": f"{built}/functions", "stages": str(built)}
    forms: dict[str, dict[str, str]] = json.loads((folder / GIVEN).read_text())
    for name, context in forms.items():
        app = App(
            analytics_reporting=False,
            outdir=str(folder / name),
            context=defaults | ours | context,
        )
        define(app).synth()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
