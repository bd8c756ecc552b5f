"""Addresses that a server of tools may have."""

import pytest

from layover.plugins.reach.mcp.guard import may_ask


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "fe80::1",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "0.0.0.0",
        "224.0.0.1",
        # Credentials of EKS's pods, Oracle, Azure and Alibaba.
        "fd00:ec2::23",
        "192.0.0.192",
        "168.63.129.16",
        "100.100.100.200",
        # Others in them.
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1:a9fe:a9:fe00::",
        "::169.254.169.254",
        "2001:0:a9fe:a9fe::1",
    ],
)
def test_address_of_credentials_or_of_nobody_is_never_asked(address: str) -> None:
    assert not may_ask(address, private=False)
    assert not may_ask(address, private=True)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "::127.0.0.1", "10.0.0.7", "192.168.1.1", "172.16.0.1", "fd12::1"],
)
def test_address_inside_a_network_is_asked_only_if_the_author_says_so(address: str) -> None:
    assert not may_ask(address, private=False)
    assert may_ask(address, private=True)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_public_address_is_asked(address: str) -> None:
    assert may_ask(address, private=False)
