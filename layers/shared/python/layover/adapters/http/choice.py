"""The client for the network that a process is in."""

from collections.abc import Mapping

from layover.adapters.http.client import Client, MakeClient
from layover.adapters.http.direct import (
    CONNECT_TIMEOUT_S,
    KEEP_ALIVE_S,
    MAX_CONNECTIONS,
    DirectClient,
)

_PROXY_VARIABLES = frozenset({"http_proxy", "https_proxy", "all_proxy"})


def choose_client(variables: Mapping[str, str]) -> MakeClient:
    """Return the maker of clients: our own, or also a library's if the process's variables name a proxy."""
    if any(name.lower() in _PROXY_VARIABLES and variables[name] for name in variables):
        return _make_proxied
    return DirectClient


def _make_proxied() -> Client:
    from layover.adapters.http.proxied import ProxiedClient, RoutedClient

    far = ProxiedClient(MAX_CONNECTIONS, KEEP_ALIVE_S, CONNECT_TIMEOUT_S)
    return RoutedClient(DirectClient(), far)
