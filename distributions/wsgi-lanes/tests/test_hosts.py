"""Which Host headers are names of this service."""

from __future__ import annotations

import pytest

from wsgi_lanes.hosts import Hosts, is_known_host

OWN = ("127.0.0.1:8778", "localhost", "[::1]:8778", "placement.example:443", "a.localhost", "")
OTHER = ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "x@127.0.0.1")
OVER_LOOPBACK = {"SERVER_NAME": "127.0.0.1", "REMOTE_ADDR": "127.0.0.1"}
OVER_A_NETWORK = {"SERVER_NAME": "192.0.2.2", "REMOTE_ADDR": "192.0.2.1"}


@pytest.mark.parametrize("header", OWN)
def test_a_known_host_is_accepted(header: str) -> None:
    assert is_known_host(header, frozenset({"placement.example"}))


@pytest.mark.parametrize("header", OTHER)
def test_another_name_is_refused_unless_no_names_are_known_and_the_client_is_remote(header: str) -> None:
    named, unnamed, proxied = Hosts(frozenset({"placement.example"})), Hosts(), Hosts(is_proxied=True)
    for ends in (OVER_LOOPBACK, OVER_A_NETWORK):
        assert header in str(named.problem({**ends, "HTTP_HOST": header}))
    assert "the names of this service" in str(unnamed.problem({**OVER_LOOPBACK, "HTTP_HOST": header}))
    assert unnamed.problem({**OVER_A_NETWORK, "HTTP_HOST": header}) is None
    assert proxied.problem({**OVER_LOOPBACK, "HTTP_HOST": header}) is None
