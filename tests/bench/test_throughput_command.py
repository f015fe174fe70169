"""``stead-bench throughput`` against a real Stead, and a second one as the peer."""

import pytest

from tests.bench.conftest import serving

pytestmark = pytest.mark.timeout(120)  # starts servers


def test_many_clients_ask_and_claim(bench, tmp_path):
    with serving(tmp_path / "peer", None) as peer:
        ran = bench(
            *("throughput", "--hosts", "30", "--clients", "2", "--seconds", "0.5", "--workers", "2"),
            *("--peer", peer.url, "--peer-pid", str(peer.pids[0])),
        )
    assert ran.code == 0, ran.err
    assert [one["server"] for one in ran.json["servers"]] == ["Stead", "peer"]
    for one in ran.json["servers"]:
        assert one["reads"] >= 9 * one["claims"] > 0
        assert one["requests"] == one["reads"] + one["claims"]
        assert one["read_p50_ms"] <= one["read_p99_ms"]
        assert one["claim_p50_ms"] <= one["claim_p99_ms"]
        assert one["cpu_ms"] > 0
        assert one["errors"] == 0
