"""``stead-bench fill`` on SQLite: every place is taken once, in either way."""

import pytest

pytestmark = pytest.mark.timeout(240)  # starts servers


def test_a_site_is_filled_in_both_ways(bench):
    ran = bench("fill", "--hosts", "6", "--per-host", "3", "--clients", "4", "--services", "2", "--order", "pack")
    assert ran.code == 0, ran.err
    fills = ran.json["fills"]
    assert [(fill["way"], fill["order"], fill["claims"]) for fill in fills] == [
        ("POST", "pack", 18),
        ("GET + PUT", "pack", 18),
    ]
    for fill in fills:
        assert fill["per_second"] > 0
        assert 0 < fill["p50_ms"] <= fill["p99_ms"]
        assert fill["cpu_ms"] > 0
        assert fill["conflicts"] >= 0
    assert "conflicts" in ran.out
