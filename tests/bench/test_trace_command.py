"""``stead-bench trace`` on a few hosts: what it gives out, its table, and what it refuses."""

import pytest

from stead_bench import trace

pytestmark = pytest.mark.timeout(240)  # fills sites, on a busy machine

NODES = """sn,cpu_milli,memory_mib,gpu,model
a,8000,8000,2,G2
b,8000,8000,2,T4
c,8000,8000,0,
"""
TASKS = """cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
1000,1000,1,500,
1000,1000,2,1000,T4|G2
1000,1000,0,0,
"""
PUBLISHED = """tasks,policy,allocated_at_100,allocated_at_130
small,Guess,50.00,60.50
other,Guess,1.00,1.00
"""


@pytest.fixture
def files(tmp_path):
    for name, text in (("nodes", NODES), ("tasks-small", TASKS), ("published", PUBLISHED)):
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_the_hosts_are_filled_in_each_order_beside_what_was_published(bench, files):
    places = str(files / "nodes.csv"), str(files / "tasks-small.csv")
    options = ("--seeds", "2", "--order", "pack", "--order", "spread", "--published", str(files / "published.csv"))
    ran = bench("trace", *places, *options)
    assert ran.code == 0, ran.err
    fills = {fill["order"]: fill for fill in ran.json["fills"]}
    assert fills.keys() == {"pack", "spread", "Guess"}
    assert (fills["Guess"]["at_130"], fills["Guess"]["seeds"]) == (60.5, 0)
    for order in ("pack", "spread"):
        fill = fills[order]
        assert fill["seeds"] == 2
        assert len(fill["curve"]) == 130
        assert 0 < fill["at_100"] <= fill["at_130"] <= 100
        given = [point[1] for point in fill["curve"]]
        assert given == sorted(given)
    assert "Guess" in ran.out


def test_a_run_may_end_before_the_hosts_are_full(bench, files):
    places = str(files / "nodes.csv"), str(files / "tasks-small.csv")
    ran = bench("trace", *places, "--seeds", "1", "--order", "pack", "--until", "40")
    assert ran.code == 0, ran.err
    [fill] = ran.json["fills"]
    assert len(fill["curve"]) == 40
    assert 0 < fill["at_100"] == fill["at_130"] < 80


def test_clients_of_a_server_fill_the_hosts_together(bench, files):
    places = str(files / "nodes.csv"), str(files / "tasks-small.csv")
    ran = bench("trace", *places, "--seeds", "1", "--order", "headroom", "--clients", "8")
    assert ran.code == 0, ran.err
    [fill] = ran.json["fills"]
    assert (fill["clients"], fill["seeds"], len(fill["curve"])) == (8, 1, 130)
    assert fill["claim_ms"] > 0
    given = [point[1] for point in fill["curve"]]
    assert given == sorted(given)
    assert 50 < given[-1] == fill["at_130"] <= 100


def test_a_task_is_a_request_for_its_gpus(files):
    share, whole, plain = trace.tasks_of(files / "tasks-small.csv")
    assert str(share.request("pack")) == str(
        trace.Request(
            trace.Group(CUSTOM_CPU_MILLI=1000, MEMORY_MB=1000), trace.Group("GPU0", CUSTOM_GPU_MILLI=500), order="pack"
        )
    )
    assert (whole.asked, share.asked, plain.asked) == (2000, 500, 0)
    assert "in:CUSTOM_GPU_G2,CUSTOM_GPU_T4" in whole.request().query()


def test_tasks_for_a_model_that_no_host_has_are_refused_before_any_claim(bench, files):
    (files / "tasks-other.csv").write_text(TASKS.replace("T4|G2", "T4|H9"))
    ran = bench("trace", str(files / "nodes.csv"), str(files / "tasks-other.csv"))
    assert ran.code == 2
    assert "H9" in ran.err


def test_a_file_that_cannot_be_read_is_named(bench, files):
    ran = bench("trace", str(files / "nodes.csv"), str(files / "tasks-absent.csv"))
    assert ran.code == 2
    assert "tasks-absent.csv" in ran.err
    ran = bench("trace", str(files / "tasks-small.csv"), str(files / "tasks-small.csv"))
    assert ran.code == 2
    assert "sn" in ran.err
