"""The sizes of a stage: what each sets where the deployer says nothing."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any


class Size(StrEnum):
    """The size of a stage."""

    SMALL = "small"
    """The defaults: for trials, and for few users who can wait for a database that sleeps."""
    PRODUCTION = "production"
    """Two zones, nothing that sleeps, and data that somebody can bring back."""


class Nat(StrEnum):
    """The route from the private subnets of the functions to the internet."""

    INSTANCE = "instance"
    """One small instance in the stack, which updates itself."""
    GATEWAY = "gateway"
    """AWS's NAT gateway: five times the price, nothing to look after."""
    IPV6 = "ipv6"
    """An egress-only gateway, which costs nothing and leads only to hosts that have IPv6 addresses."""
    NONE = "none"
    """A VPC of the deployer's: its subnets have a way out already."""


_OF_AN_OWN_VPC = ("nat", "nat_gateways")
"""Settings about the VPC that the stack makes."""
VALUES: Mapping[Size, Mapping[str, Any]] = {
    Size.SMALL: {},
    Size.PRODUCTION: {
        "nat": Nat.GATEWAY,
        "nat_gateways": 2,
        # The least of a unit: the database never sleeps, so no request waits 15 s for it.
        "database_min_acu": 0.5,
        "database_max_acu": 16,
        "database_readers": 1,
        "database_backup": timedelta(days=14),
        "bucket_versions_days": 30,
        "own_key": True,
        "retain": True,
        "protection": True,
        "dashboard": True,
        "api_rate": 200,
        "api_burst": 400,
        "api_concurrency": 200,
        # One user's loop would otherwise take the rate of all.
        "runs_per_minute": 60,
    },
}
"""The values that a size sets, by the names of settings."""


def values_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the size of these settings sets. `settings`: as a deployer writes them; a size that does
    not exist sets nothing, and is refused by whoever reads them."""
    try:
        values = VALUES[Size(settings.get("size", Size.SMALL))]
    except ValueError:
        return {}
    if settings.get("vpc_id") or settings.get("has_own_vpc"):
        return {name: value for name, value in values.items() if name not in _OF_AN_OWN_VPC}
    if settings.get("nat", Nat.GATEWAY) != Nat.GATEWAY:
        return {name: value for name, value in values.items() if name != "nat_gateways"}
    return values
