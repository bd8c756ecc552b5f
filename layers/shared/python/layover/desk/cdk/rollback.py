"""The way back: moves the aliases of a stage to what was deployed before, all of them or none.

`layover ops rollback` is its command. Nothing else of the stack changes: neither the schema nor a variable of
another function. The next deployment moves the aliases on."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from layover.desk.cdk.settings import FUNCTIONS, Settings

ALIAS = "live"
"""Name of the alias that API Gateway, Step Functions, EventBridge and the functions themselves invoke."""
PUBLISHED = tuple(name for name in FUNCTIONS if name != "migrate")
"""The functions that are published: CloudFormation invokes `migrate` itself."""
DESCRIPTION = re.compile(r"Layover (?P<release>\S+) \((?P<digest>[0-9a-f]+)\)")
PREVIOUS = "previous"


class NoWayBack(Exception):
    """The aliases stay where they are. The message says why, and what to do."""


@dataclass(frozen=True)
class Deployment:
    """The versions that one deployment published. `versions`: function -> number."""

    release: str
    digest: str
    at: datetime
    versions: Mapping[str, str]


def deployments(settings: Settings, client: Any) -> list[Deployment]:
    """Return the deployments of which every function has a version, the newest first. `client`: Lambda's.
    Raises botocore's errors."""
    by_digest: dict[str, dict[str, Any]] = {}
    for name in PUBLISHED:
        for version in _versions(client, f"{settings.prefix}-{name}"):
            match = DESCRIPTION.fullmatch(version.get("Description", ""))
            if match is not None:
                # The last one wins: a deployment that went back and came again was published twice.
                by_digest.setdefault(match["digest"], {})[name] = (match["release"], version)
    complete = [
        _deployment(digest, parts)
        for digest, parts in by_digest.items()
        if parts.keys() == set(PUBLISHED)
    ]
    return sorted(complete, key=lambda each: each.at, reverse=True)


def _versions(client: Any, function: str) -> Iterator[dict[str, Any]]:
    for page in client.get_paginator("list_versions_by_function").paginate(FunctionName=function):
        yield from (each for each in page["Versions"] if each["Version"] != "$LATEST")


def _deployment(digest: str, parts: Mapping[str, Any]) -> Deployment:
    versions = {name: str(version["Version"]) for name, (_, version) in parts.items()}
    at = max(datetime.fromisoformat(version["LastModified"]) for _, version in parts.values())
    release = next(iter(parts.values()))[0]
    return Deployment(release, digest, at, versions)


def current(settings: Settings, client: Any) -> dict[str, str]:
    """Return the version to which each alias leads. Raises NoWayBack for a stage without aliases, and
    botocore's other errors."""
    try:
        return {
            name: client.get_alias(FunctionName=f"{settings.prefix}-{name}", Name=ALIAS)[
                "FunctionVersion"
            ]
            for name in PUBLISHED
        }
    except client.exceptions.ResourceNotFoundException:
        raise NoWayBack(
            f"{settings.prefix} has no aliases: it is not deployed here, or by a release before them. "
            "Check the stage, the profile and the region"
        ) from None


def choose(everything: Sequence[Deployment], now: Mapping[str, str], to: str) -> Deployment:
    """Return the deployment to go to: by its digest, or the one before the current one. Raises NoWayBack."""
    if to != PREVIOUS:
        match = [each for each in everything if each.digest.startswith(to)]
        if len(match) != 1:
            raise NoWayBack(
                f"{len(match)} deployments begin with {to!r}: choose from "
                f"{', '.join(each.digest for each in everything) or 'none'}"
            )
        return match[0]
    here = next((n for n, each in enumerate(everything) if each.versions == now), None)
    if here is None:
        raise NoWayBack("the aliases lead to different deployments: name one with --to DIGEST")
    if here + 1 == len(everything):
        raise NoWayBack("there is nothing before the current deployment: deploy a mended one")
    return everything[here + 1]


def move(settings: Settings, client: Any, to: Deployment, now: Mapping[str, str]) -> None:
    """Move all aliases. If one cannot be moved, those that were go back, and its error is raised."""
    done: list[str] = []
    try:
        for name in PUBLISHED:
            _lead(settings, client, name, to.versions[name])
            done.append(name)
    except Exception:
        for name in done:
            _lead(settings, client, name, now[name])
        raise


def _lead(settings: Settings, client: Any, name: str, version: str) -> None:
    client.update_alias(
        FunctionName=f"{settings.prefix}-{name}", Name=ALIAS, FunctionVersion=version
    )


def listing(everything: Sequence[Deployment], now: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each deployment; a star marks the current one."""
    for each in everything:
        mark = "*" if each.versions == now else " "
        yield f"{mark} {each.digest}  {each.at:%Y-%m-%d %H:%M}  Layover {each.release}"
