"""Servers that no proxy reaches."""

from ipaddress import ip_address


def is_this_machine(host: str) -> bool:
    """Return whether a name or an address is of this machine, which no proxy reaches."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified
