"""``stead run``, ``ps`` and ``kill``: what the command sees, its exit codes, and what is left afterwards."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import stead
from stead.cli.errors import CommandError
from stead.cli.run import OWN_UUID, Part, cpus_of, environment, nodes_of
from stead.cli.run import _enter as enter
from stead.cli.run import _request as request_of
from stead.client.provider import Provider, Tree
from stead.topology import nvidia
from tests.servers.placements import stead_itself
from tests.waiting import wait_until

pytestmark = pytest.mark.one_database


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with stead_itself(tmp_path_factory.mktemp("lab")) as (url, token), stead.connect(url, token) as site:
        far = stead.Node("box_NUMA1", traits=["HW_NUMA_ROOT"])
        cards = [
            stead.Node(f"box_GPU_0000:0{bus}:00.0", PGPU=1, traits={"CUSTOM_PCI_10DE_20B0", "CUSTOM_GPU_NVIDIA_A100"})
            for bus in (1, 2)
        ]
        site.apply(
            stead.Node("box", children=[stead.Node("box_NUMA0", children=cards, traits=["HW_NUMA_ROOT"]), far]),
            create_names=True,
        )
        yield site, url, token


def start(lab, *words, **options):
    _, url, token = lab
    return subprocess.Popen(
        [sys.executable, "-c", "from stead.cli import main; main()", "--url", url, "--token", token, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def ended(process, seconds=50):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def run(lab, *words, **options):
    return ended(start(lab, *words, **options))


def runs(site):
    return {claim.project: claim for claim in site.claims(type="RUN")}


@contextmanager
def running(lab, *words, name="train"):
    """A run whose command has begun."""
    process = start(lab, "run", "--name", name, *words)
    try:
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_command_has_its_place_only_while_it_runs_and_its_exit_code_is_returned(lab):
    site = lab[0]
    code, out, err = run(
        lab, "run", "-r", "PGPU:2", "--", "sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES $STEAD_CLAIM"; exit 7'
    )
    assert (code, err) == (7, "")
    devices, _, claim = out.partition(" ")
    assert sorted(devices.split(",")) == ["0", "1"]
    told = json.loads(claim)["providers"]
    assert [(each["host"], each["resources"]) for each in told] == [("box", {"PGPU": 1})] * 2
    assert runs(site) == {}


def test_ps_shows_who_has_what_and_kill_ends_the_command(lab):
    site = lab[0]
    script = "trap 'echo ended; exit 0' TERM; echo begun; while :; do sleep 0.1; done"
    with running(lab, "-r", "PGPU:1", "--lease", "3", "--", "sh", "-c", script) as process:
        ((name, claim),) = runs(site).items()
        (shown,) = json.loads(run(lab, "ps", "--json")[1])["runs"]
        assert (shown["name"], f"{shown['user']}@{shown['host']}") == (name, claim.user)
        assert shown["since"] < shown["until"]
        assert [each["resources"] for each in shown["allocations"].values()] == [{"PGPU": 1}]
        code, out, _ = run(lab, "ps")
        assert code == 0
        assert "1 PGPU of box_GPU_0000:0" in " ".join(out.split())
        code, _, err = run(lab, "run", "--name", "train", "-r", "PGPU:1", "true")
        assert code == 1
        assert "the name train is in use by" in err
        assert run(lab, "kill", "train")[:2] == (0, f"released train of {claim.user}: {placed(site, claim)}\n")
        code, out, err = ended(process)
        assert (code, out) == (3, "ended\n")
        assert "the claim was lost, so the command gets SIGTERM" in err
    assert run(lab, "kill", "train")[0] == 1
    assert run(lab, "ps")[:2] == (0, "nothing runs\n")


def placed(site, claim):
    (uuid,) = claim.allocations
    return f"1 PGPU of {site.provider(uuid).name}"


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace_with_what_it_started(lab, tmp_path):
    script = "trap '' TERM; sleep 1000 & echo $! > $0; echo begun; while :; do sleep 0.1; done"
    pid_file = tmp_path / "pid"
    options = ["--lease", "3", "--grace", "0.2", "-r", "PGPU:1"]
    with running(lab, *options, "--", "sh", "-c", script, str(pid_file)) as process:
        run(lab, "kill", "train")
        assert ended(process)[0] == 3
        pid = int(pid_file.read_text())
        wait_until(lambda: not is_alive(pid))


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_command_may_run_on_without_its_place(lab):
    script = "echo begun; read line; exit 5"
    with running(
        lab, "--keep-running", "--lease", "2", "-r", "PGPU:1", "--", "sh", "-c", f"{{ {script}; }} < $0", "/dev/null"
    ) as process:
        assert ended(process)[0] == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_command(lab, number):
    script = f"trap 'echo got {number.name}; exit 4' {number.name[3:]}; echo begun; while :; do sleep 0.05; done"
    with running(lab, "-r", "PGPU:1", "--", "sh", "-c", script) as process:
        process.send_signal(number)
        assert ended(process)[:2] == (4, f"got {number.name}\n")
    assert runs(lab[0]) == {}


def test_a_command_that_a_signal_ends_has_the_exit_code_of_a_shell(lab):
    assert run(lab, "run", "-r", "PGPU:1", "--", "sh", "-c", "kill -9 $$")[0] == 128 + 9


def test_sigkill_ends_the_command_too_and_the_lease_ends_the_claim(lab):
    site = lab[0]
    with running(
        lab, "--lease", "2", "-r", "PGPU:2", "--", "sh", "-c", "sleep 1000 & echo begun; echo $!; wait"
    ) as process:
        pid = int(process.stdout.readline())
        process.kill()
        wait_until(lambda: not is_alive(pid))
        assert runs(site)  # until the lease ends
    code, _, err = run(lab, "run", "--wait", "40", "-r", "PGPU:2", "true")
    assert code == 0
    assert err.startswith("stead: waiting up to 40 s for -r PGPU:2")
    assert err.splitlines()[1].startswith("stead:   train of ")
    assert " until 20" in err.splitlines()[1]


def test_ctrl_c_leaves_the_queue(lab):
    site = lab[0]
    with running(lab, "-r", "PGPU:2", "--", "sh", "-c", "echo begun; sleep 1000"):
        waiting = start(lab, "run", "--wait", "10m", "-r", "PGPU:1", "true")
        assert waiting.stderr.readline().startswith("stead: waiting up to 600 s for -r PGPU:1")
        waiting.send_signal(signal.SIGINT)
        assert ended(waiting)[0] == 130
        assert list(runs(site)) == ["train"]
    site.release(runs(site)["train"].consumer)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["-r", "PGPU:3", "true"], 1, "nothing fits -r PGPU:3; `stead explain 'resources1="),
        (["-r", "PGPU:1", "no-such-command"], 127, "no-such-command: command not found"),
        (["-r", "PGPU:1", "/etc/passwd"], 126, "/etc/passwd: cannot be executed"),
        (["-r", "PGPU:1"], 2, "give a command, or --shell"),
        (["-r", "PGPU:1", "--shell", "true"], 2, "give either --shell or a command"),
        (["true"], 2, "give one of -r, -q and --flavor"),
        (["-r", "PGPU", "true"], 2, "-r PGPU: expected CLASS:N, such as PGPU:1"),
        (["-r", "PGPU:0", "true"], 2, "-r PGPU:0: expected CLASS:N"),
        (["-r", "PGPU:1", "--lease", "soon", "true"], 2, "--lease"),
        (["-r", "PGPU:1", "--lease", "0", "true"], 2, "a lease of 0"),
        (["-r", "PGPU:1", "--host", "nowhere", "true"], 1, "no resource provider 'nowhere'"),
        (["-r", "CUSTOM_UNKNOWN:1", "true"], 2, "CUSTOM_UNKNOWN"),
    ],
)
def test_what_cannot_run_claims_nothing(lab, words, code, message):
    returned, out, err = run(lab, "run", *words)
    assert (returned, out) == (code, "")
    assert message in err
    assert runs(lab[0]) == {}


def test_a_shell_and_a_host_are_chosen(lab):
    environment = {**os.environ, "SHELL": "/bin/sh"}
    options = ["--host", "box", "--shell"]
    code, _, err = run(lab, "run", "-q", "resources_A=PGPU:1", *options, env=environment)
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("texts", "query"),
    [
        (["PGPU:1"], "resources1=PGPU:1"),
        (["VCPU:4"], "resources=VCPU:4"),
        (["VCPU:4", "VCPU:2", "MEMORY_MB:8"], "resources=VCPU:6,MEMORY_MB:8"),
        (["PGPU:1,VGPU:4", "VCPU:4"], "resources=VCPU:4&resources1=PGPU:1,VGPU:4"),
        (["CUSTOM_GPU_SHARE:2"], "resources=CUSTOM_GPU_SHARE:2"),
    ],
)  # fmt: skip
def test_the_amounts_of_one_option_are_of_one_provider_and_devices_are_of_several(texts, query):
    assert request_of(texts, None, None) == query


@pytest.mark.parametrize(("devices", "code"), [("PGPU:2", 0), ("PGPU:3", 1)])
def test_devices_near_each_other_are_below_one_node(lab, devices, code):
    assert run(lab, "run", "--near", "-r", devices, "true")[0] == code
    assert run(lab, "run", "--near", "-q", "resources=PGPU:1", "true")[0] == 2


def test_a_claim_that_loses_every_race_is_tried_again_while_the_run_may_wait(lab):
    site, lost = lab[0], [stead.Stale(409, "Claim lost every race; retry.")] * 2

    def hold():
        if lost:
            raise lost.pop()
        return site.hold("resources=PGPU:1", lease=60, project="p")

    with ExitStack() as block:
        assert enter(site, block, hold, "resources=PGPU:1", 30).allocations
    lost.append(stead.Stale(409, "Claim lost every race; retry."))
    with pytest.raises(stead.Stale), ExitStack() as block:
        enter(site, block, hold, "resources=PGPU:1", 0)


def provider(name, uuid, parent, *traits):
    return Provider(uuid, name, 0, parent, "u0", {}, {}, frozenset(traits))


HOST = Tree(
    (
        provider("box", "u0", None),
        provider("box_NUMA2-3", "u1", "u0"),
        provider("box_GPU_0000:82:00.0", "b", "u1", "CUSTOM_PCI_1002_740C"),
        provider("box_GPU_0000:02:00.0", "a", "u1", "CUSTOM_PCI_1002_740C"),
        provider("box_GPU_0000:03:00.0", "i", "u1", "CUSTOM_PCI_8086_0BD5"),
        provider("box_GPU_0000:04:00.0", "n", "u1", "CUSTOM_PCI_10DE_20B0", OWN_UUID),
        provider("box_GPU_0000:04:00.0_MIG_1", "m", "n", "CUSTOM_MIG_1G_5GB", "CUSTOM_GPU_NVIDIA_A100", OWN_UUID),
        provider("board", "o", "u0", "CUSTOM_ARM"),
    )
)


def variables(*claimed):
    parts = [Part(next(each for each in HOST if each.uuid == uuid), {name: 1}, HOST) for uuid, name in claimed]
    claim = stead.Claim.__new__(stead.Claim)
    object.__setattr__(claim, "consumer", "c")
    made = environment(claim, "train", parts)
    assert len(json.loads(made.pop("STEAD_CLAIM"))["providers"]) == len(claimed)
    return made, nodes_of(parts)


def test_a_command_is_bound_to_the_cpus_of_its_nodes_that_it_may_use(tmp_path):
    """As the kernel of a machine with four nodes describes them; the last one has memory only."""
    allowed = sorted(os.sched_getaffinity(0))
    lists = {0: "1000-1003,1008", 1: f"{allowed[0]}", 2: ",".join(map(str, [*allowed[1:], 2000])), 3: ""}
    for node, cpus in lists.items():
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(f"{cpus}\n")
    assert cpus_of({1}, tmp_path) == {allowed[0]}
    assert cpus_of({1, 2, 3}, tmp_path) == {*allowed}
    if len(allowed) > 1:
        assert cpus_of(variables(("a", "PGPU"))[1], tmp_path) == {*allowed[1:]}
    for nodes, words in [({0}, "nothing of the claim"), ({3}, "nothing"), (set(), "nothing"), ({4}, "NUMA node 4")]:
        with pytest.raises(CommandError, match=words):
            cpus_of(nodes, tmp_path)


@pytest.mark.parametrize(
    ("claimed", "made"),
    [
        ([("n", "PGPU")], {"CUDA_VISIBLE_DEVICES": "GPU-n"}),
        ([("m", "CUSTOM_MIG"), ("n", "CUSTOM_GPU_SHARE")], {"CUDA_VISIBLE_DEVICES": "MIG-m,GPU-n"}),
        ([("b", "PGPU"), ("a", "PGPU")], {"ROCR_VISIBLE_DEVICES": "1,0"}),
        ([("i", "PGPU")], {"ZE_AFFINITY_MASK": "0"}),
        ([("n", "CUSTOM_GPU_MEMORY_MB")], {}),
    ],
)
def test_each_vendor_has_its_variable(claimed, made):
    assert variables(*claimed) == (made, {2, 3})


def test_other_devices_are_in_the_claim_only_and_have_no_node():
    assert variables(("o", "CUSTOM_BOARD")) == ({}, set())


def test_the_trait_is_the_one_that_the_reader_sets():
    assert nvidia.OWN_UUID == OWN_UUID
