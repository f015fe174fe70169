"""``stead-bench load``: a start, and refreshes, in processes of their own."""

import pytest

pytestmark = pytest.mark.timeout(120)  # starts servers


def test_a_start_is_held_against_what_the_driver_needs(bench):
    ran = bench("load", "--providers", "40", "--traits", "6", "--changed", "1", "--changed", "25")
    assert ran.code == 0, ran.err
    start = ran.json["start"]
    assert start["providers"] == 40
    assert start["rows"] > 0
    assert start["beyond_driver_seconds"] == pytest.approx(start["seconds"] - start["driver_seconds"], abs=0.002)
    assert start["memory_mib"] > start["memory_before_mib"] > 1
    assert [refresh["changed"] for refresh in start["refreshes"]] == [1, 25]
    small, large = start["refreshes"]
    assert large["rows"] >= small["rows"] > 0  # on SQLite a statement gives one, whatever there is
    assert large["longest_pause_ms"] > 0
    assert "beyond the driver" in ran.out
