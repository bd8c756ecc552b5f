"""The results of a synthesis of the stack, for tests to look at."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

# Rules of cfn-lint that cannot hold: the CDK writes DependsOn in addition to references.
NOT_OURS = ("W3005",)

BANK_KEY = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:shop/bank-AbCdEf"
"""A secret of the tools of the app `everything`."""


def listed(value: Any) -> list[Any]:
    """IAM writes a list of one as its only member."""
    return value if isinstance(value, list) else [value]


class Synthesized:
    """The folder that `cdk synth` left, and its output."""

    def __init__(self, folder: Path, said: str, stack: str = "*") -> None:
        """`stack`: its name, where an app has several."""
        self.folder = folder
        self.said = said
        self.stack = stack
        self.template: dict[str, Any] = json.loads(self.file.read_text())

    @property
    def file(self) -> Path:
        """The template's file."""
        (found,) = self.folder.glob(f"{self.stack}.template.json")
        return found

    @property
    def protected(self) -> bool:
        """True if CloudFormation refuses to delete the whole stack."""
        manifest = json.loads((self.folder / "manifest.json").read_text())
        (stack,) = (
            a["properties"]
            for a in manifest["artifacts"].values()
            if a["type"] == "aws:cloudformation:stack"
        )
        return bool(stack.get("terminationProtection"))

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """Resources of a CloudFormation type, by logical id."""
        resources = self.template["Resources"].items()
        return {name: r for name, r in resources if r["Type"] == kind}

    def one(self, kind: str) -> dict[str, Any]:
        """The properties of the only resource of its type."""
        (found,) = self.of_type(kind).values()
        return dict(found["Properties"])

    def functions(self) -> dict[str, dict[str, Any]]:
        """Our own functions' properties, by the name of their folder."""
        found = [r["Properties"] for r in self.of_type("AWS::Lambda::Function").values()]
        ours = [p for p in found if p["Handler"].startswith("functions.")]
        return {p["Handler"].split(".")[1]: p for p in ours}

    def function_behind(self, alias: str) -> str:
        """The name of the folder of the function to which an alias leads, by the alias's logical id."""
        resources = self.template["Resources"]
        assert resources[alias]["Type"] == "AWS::Lambda::Alias", alias
        version = resources[alias]["Properties"]["FunctionVersion"]["Fn::GetAtt"][0]
        function = resources[version]["Properties"]["FunctionName"]["Ref"]
        assert resources[alias]["Properties"]["FunctionName"]["Ref"] == function
        return str(resources[function]["Properties"]["Handler"].split(".")[1])

    def statements(self, function: str) -> list[dict[str, Any]]:
        """Return the statements of a function's role."""
        role = self.functions()[function]["Role"]["Fn::GetAtt"][0]
        policies = [r["Properties"] for r in self.of_type("AWS::IAM::Policy").values()]
        mine = [p for p in policies if {"Ref": role} in p["Roles"]]
        return [s for p in mine for s in p["PolicyDocument"]["Statement"]]

    def linted(self) -> list[tuple[str, str]]:
        """Return cfn-lint's findings: rules and messages."""
        kept = self.file.with_suffix(".cfn-lint")
        if not kept.exists():
            lint = [
                str(Path(sys.executable).with_name("cfn-lint")),
                str(self.file),
                "--format",
                "json",
            ]
            run = subprocess.run(lint, capture_output=True, text=True, timeout=240, check=False)
            kept.write_text(json.dumps(json.loads(run.stdout or "[]")))
        found = [(m["Rule"]["Id"], m["Message"]) for m in json.loads(kept.read_text())]
        return [each for each in found if each[0] not in NOT_OURS]
