"""``stead-bench leases`` on SQLite."""

import pytest

pytestmark = pytest.mark.timeout(120)  # starts a server


def test_all_leases_are_renewed(bench):
    ran = bench("leases", "--number", "1005", "--renewals", "1003", "--rounds", "2", "--seconds", "0.2")
    assert ran.code == 0, ran.err
    (measured,) = ran.json["leases"]
    assert (measured["database"], measured["leases"], measured["renewals"]) == ("sqlite", 1005, 1003)
    assert 0 < measured["renewal_seconds"] <= measured["longest_seconds"]
    assert measured["renewal_cpu_seconds"] > 0
    assert measured["alive_percent"] >= 0
    assert "renewals" in ran.out
