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
    assert [server["server"] for server in ran.json["servers"]] == ["Stead", "peer"]
    for server in ran.json["servers"]:
        assert server["reads"] >= 9 * server["claims"] > 0
        assert server["requests"] == server["reads"] + server["claims"]
        assert server["read_p50_ms"] <= server["read_p99_ms"]
        assert server["claim_p50_ms"] <= server["claim_p99_ms"]
        assert server["cpu_ms"] > 0
        assert server["errors"] == 0
