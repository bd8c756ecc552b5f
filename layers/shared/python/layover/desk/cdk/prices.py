"""Prices of a stage in a month in which nobody uses it, from AWS's list prices.

docs/deploy/costs.md has the same numbers, and what use adds; `tests/infra/test_sizes.py` compares. Nothing is
looked up: a synthesis needs no network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from layover.desk.cdk.settings import Settings
from layover.desk.cdk.sizes import VALUES, Nat

REGION = "us-east-1"
AS_OF = "2026"
"""The year of the list prices."""
HOURS = 730
"""Of a month, as AWS counts."""
NAT_INSTANCE = Decimal("0.0042")
"""An hour of a t4g.nano."""
NAT_DISK = Decimal("0.08") * 8
"""A month of its 8 GiB."""
NAT_GATEWAY = Decimal("0.045")
"""An hour; each GB that passes costs as much again."""
ADDRESS = Decimal("0.005")
"""An hour of a public IPv4 address."""
ACU = Decimal("0.12")
"""An hour of a capacity unit of Aurora Serverless v2 (2 GiB of memory)."""
GIB_OF_AURORA = Decimal("0.10")
SECRET = Decimal("0.40")
KEY = Decimal("1.00")
ALARM = Decimal("0.10")
"""A metric of an alarm: a sum of ten metrics costs as ten alarms, and a composite alarm 0.50 more."""
DASHBOARD = Decimal("3.00")
SWEEPS = Decimal("0.34")
"""43,800 invocations of `sweep` with what they read and write."""


@dataclass(frozen=True)
class Price:
    """A line of the bill. `usd`: US dollars a month while nobody uses the stage."""

    what: str
    usd: Decimal
    note: str = ""
    """The part that use adds, in words."""

    def __str__(self) -> str:
        return f"{self.what}: about {self.usd:.2f}" + (f" ({self.note})" if self.note else "")


def idle(settings: Settings, alarm_metrics: int, *, makes_database: bool = True) -> Sequence[Price]:
    """Return the lines of a month in which nobody uses the stage. `alarm_metrics`: metrics of all alarms.
    `makes_database`: false if the deployer has the cluster, whose price is not the stage's."""
    lines = [*_way_out(settings), *(_database(settings) if makes_database else ())]
    lines += [Price("the sweeper, each minute", SWEEPS)]
    if settings.own_key:
        note = "and 1.00 after each of the first two yearly rotations"
        lines.append(Price("own_key: a key of KMS", KEY, note))
    if days := settings.bucket_versions_days:
        what = f"bucket_versions_days={days}: what was overwritten or deleted"
        lines.append(Price(what, Decimal(0), "0.023 for each GB of it"))
    lines.append(
        Price(
            f"alarms on {alarm_metrics} metrics", ALARM * alarm_metrics, "10 are free in an account"
        )
    )
    if settings.dashboard:
        lines.append(Price("the dashboard", DASHBOARD, "three are free in an account"))
    return lines


def _way_out(settings: Settings) -> Iterator[Price]:
    address = HOURS * ADDRESS
    match settings.nat:
        case Nat.INSTANCE:
            usd = HOURS * NAT_INSTANCE + NAT_DISK + address
            yield Price("nat=instance: an instance and its address, in one zone", usd)
        case Nat.GATEWAY:
            number = settings.nat_gateways
            each = HOURS * NAT_GATEWAY + address
            note = "0.045 for each GB that passes"
            yield Price(f"nat=gateway, nat_gateways={number}", number * each, note)
        case Nat.IPV6:
            yield Price("nat=ipv6: an egress-only gateway", Decimal(0))


def _database(settings: Settings) -> Iterator[Price]:
    least = Decimal(str(settings.database_min_acu))
    each = HOURS * ACU * least
    sleeps = "it sleeps" if not least else "it never sleeps"
    most = Decimal(str(settings.database_max_acu))
    note = f"database_max_acu={most}: up to {HOURS * ACU * most:.2f} under load all the time"
    yield Price(f"database_min_acu={least}: the writer, {sleeps}", each, note)
    if readers := settings.database_readers:
        yield Price(f"database_readers={readers}: ready in another zone", readers * each)
    days = settings.database_backup.days
    backup = f"database_backup={days} days: 0.021 for each GiB of them beyond its size"
    yield Price("1 GiB of storage", GIB_OF_AURORA, backup)
    yield Price("the secret of its owner", SECRET)


def report(settings: Settings, lines: Sequence[Price]) -> str:
    """Return the lines with their sum, and what else the size sets, as synthesis prints it."""
    total = sum((each.usd for each in lines), Decimal(0))
    head = (
        f"{settings.prefix}, size {settings.size}: about {total:.2f} US dollars a month while nobody uses "
        f"it (list prices of {REGION}, {AS_OF}, without free tiers)"
    )
    return "\n".join([head, *(f"  {each}" for each in lines), *_free(settings, lines)])


def _free(settings: Settings, lines: Sequence[Price]) -> Iterator[str]:
    """Yield the settings of the size that are in no line, as they cost nothing by the month, if the deployer
    has not chosen them."""
    text = "".join(map(str, lines))
    values = settings.model_dump(mode="json")
    names = [
        name
        for name in VALUES[settings.size]
        if name not in text and name not in settings.model_fields_set
    ]
    if names:
        listed = ", ".join(f"{name}={values[name]}" for name in names)
        yield f"  {listed}: nothing by the month"
