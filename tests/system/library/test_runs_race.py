"""Many `stead run` on few cards while some are killed: never two on one card, and every card is free again.

`make runs` runs 500 rounds, and 1,000 of halves.
"""

import os
import random
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

import stead
from stead.cli.run import LOST
from tests.servers.placements import stead_itself
from tests.waiting import wait_until

pytestmark = pytest.mark.one_database

ROUNDS, HALVES = int(os.environ.get("STEAD_RUN_ROUNDS", "1")), int(os.environ.get("STEAD_HALF_ROUNDS", "5"))
CARDS, RUNS = 8, 16
LEASE_SECONDS = 2

# The lock is on a file of the card. All processes of the command have it, so the end of the last one releases it.
COMMAND = 'exec 9>"$0/$CUDA_VISIBLE_DEVICES"; flock -n 9 || { echo two on one card; exit 99; }; sleep 0.5'


@pytest.mark.timeout(60 + 60 * ROUNDS)  # 16 starts of Python for each round
def test_never_two_runs_on_one_card_and_all_cards_are_free_again(tmp_path):
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    with stead_itself(tmp_path) as (url, token), stead.connect(url, token) as site:
        cards = [
            stead.Node(f"box_GPU_0000:0{bus}:00.0", PGPU=1, traits={"CUSTOM_PCI_10DE_20B0"}) for bus in range(CARDS)
        ]
        site.apply(stead.Node("box", children=cards), create_names=True)
        program = "from stead.cli import main; main()"
        options = ["-r", "PGPU:1", "--wait", "50", "--lease", str(LEASE_SECONDS), "--host", "box"]
        words = [sys.executable, "-c", program, "--url", url, "--token", token, "run", *options]
        for number in range(ROUNDS):
            processes = [
                subprocess.Popen(
                    [*words, "--", "sh", "-c", COMMAND, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
                for _ in range(RUNS)
            ]
            killed = chance.sample(processes, RUNS // 3)
            for process in killed:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(0, 1))
                process.kill()
            for process in processes:
                out, err = process.communicate()
                assert out == b"", f"round {number} of seed {seed}: {out!r}"
                # On a busy machine, a renewal may come too late. Then the lease is lost, as it must be.
                assert process in killed or process.returncode in (0, LOST), f"round {number} of seed {seed}: {err!r}"
            # A lease ends up to 2 s late, and a worker looks once a second.
            wait_until(lambda: not list(site.claims(type="RUN")), seconds=LEASE_SECONDS + 15)
            assert not any(any((each.usages or {}).values()) for each in site.tree("box"))


@pytest.mark.timeout(60 + HALVES)
def test_halves_of_cards_are_two_on_each_card(tmp_path):
    with stead_itself(tmp_path) as (url, token), stead.connect(url, token, project="p") as site:
        site.apply(
            stead.Node("box", children=[stead.Node(f"card-{number}", CUSTOM_GPU_SHARE=2) for number in range(CARDS)]),
            create_names=True,
        )
        request = stead.Request(stead.Group(CUSTOM_GPU_SHARE=1))
        for _ in range(HALVES):
            barrier = threading.Barrier(RUNS)
            claims: list[stead.Claim] = []

            def claim(barrier: threading.Barrier = barrier, claims: list[stead.Claim] = claims) -> None:
                barrier.wait()
                claims.append(site.claim(request, lease=60))

            threads = [threading.Thread(target=claim) for _ in range(RUNS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(claims) == RUNS
            assert [(each.usages or {}).get("CUSTOM_GPU_SHARE", 0) for each in site.tree("box")][1:] == [2] * CARDS
            for each in claims:
                each.release()
