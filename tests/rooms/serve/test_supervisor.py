"""Workers fail, and the service stays: the supervisor and the real processes, compared with a model of both."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from urllib.request import urlopen

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.serve import supervisor
from stead.serve.supervisor import Step, Supervisor
from tests.conftest import write_configuration
from tests.rooms.observe.test_scraping import Scraped
from tests.rooms.serve.supervised import GOOD, Batch, Expected, Simulated, live, processes
from tests.selection import examples
from tests.servers.stead import started
from tests.system.deploy.servers import free_port
from tests.waiting import wait_until

CASES = int(os.environ.get("STEAD_SUPERVISOR_CASES", "0"))
"""Sequences for the real processes, by `make supervisor`."""

pytestmark = pytest.mark.timeout(300)  # workers that hang are waited for, on a machine that may be busy

LONG_SECONDS = 120


class TestDecisions:
    @given(st.integers(1, 5), st.integers(0, 2**32))
    @settings(max_examples=max(examples(500), CASES))
    def test_those_whom_the_model_names_serve(self, count: int, seed: int) -> None:
        choices = random.Random(seed)
        live(Simulated(count), count, [Batch.drawn(choices, count) for _ in range(8)], choices)

    @pytest.mark.parametrize("loading", ["crash", "slow crash", "refused"])
    def test_each_failed_start_makes_the_next_pause_longer(self, loading: str) -> None:
        world = Simulated(2)
        world.settles(Expected(frozenset(), 2))
        world.set_loading(loading)
        before = len(world.starts)
        world.lose(min(world.serving()), "kill")
        world.settles(Expected(world.serving(), 1))
        pauses = [later - earlier for earlier, later in pairwise(world.starts[before:])]
        assert len(pauses) >= 4
        assert pauses == sorted(pauses)
        assert pauses[-1] >= 8 * pauses[0] or pauses[-1] >= 20 + 8

    def test_a_service_whose_first_workers_cannot_start_ends_with_the_reason(self) -> None:
        supervised = Supervisor(2, 0.0)
        assert [order.step for order in supervised.decide(0.0)] == [Step.START, Step.START]
        supervised.ended(1, "new worker 71 did not start: no such file", 1.0)
        assert supervised.decide(1.0) == []
        supervised.ended(2, "new worker 72 did not start: no such file", 1.0)
        supervised.decide(1.0)
        assert supervised.is_over
        assert supervised.failure is not None
        assert "new worker 72 did not start: no such file" in supervised.failure

    def test_a_stop_ends_everything_at_any_moment(self) -> None:
        for steps in range(12):
            world = Simulated(3)
            for _ in range(steps):
                world.now += 0.5
                world._step()
            if world.serving():
                world.reload()
                world.lose(min(world.serving()), "kill")
            world.supervisor.stop(world.now)
            for _ in range(10):
                world.now += 0.5
                world._step()
            assert world.supervisor.is_over
            assert world.supervisor.failure is None

    def test_failures_are_counted_by_cause_and_health_checks_have_no_details(self) -> None:
        supervised = Supervisor(2, 0.0)
        supervised.decide(0.0)
        supervised.served(1, 1.0)
        supervised.served(2, 1.0)
        assert supervised.siblings().problem is None
        supervised.ended(1, "worker 71 ended by itself (/etc/secret)", 2.0)
        supervised.decide(2.0)
        supervised.ended(3, "new worker 73 did not start: /etc/secret", 3.0)
        siblings = supervised.siblings()
        assert siblings.failures == {"ended": 1, "not_started": 1, "unresponsive": 0}
        assert siblings.states == {"starting": 0, "serving": 1, "ending": 0, "missing": 1}
        assert siblings.problem == "1 of 2 workers serve: a new worker did not start; see the log"

    def test_a_worker_that_never_loads_is_given_up(self) -> None:
        world = Simulated(1)
        world.settles(Expected(frozenset(), 1))
        world.set_loading("hang")
        first = world.serving()
        world.reload()
        world.now += supervisor.START_SECONDS + 1
        world._step()
        world._step()
        world.settles(Expected(first, 1))
        assert world.alive == first


class TestProcesses:
    @pytest.mark.parametrize("seed", range(CASES or 2))
    def test_those_whom_the_model_names_serve(self, tmp_path: Path, seed: int) -> None:
        choices = random.Random(seed)
        count = choices.choice([2, 3])
        batches = [Batch.drawn(choices, count) for _ in range(6 if CASES else 3)]
        with processes(tmp_path, count) as service:
            live(service, count, batches, choices)

    @pytest.mark.parametrize("loading", [GOOD, "refused", "hang"])
    def test_no_request_of_the_others_is_cut(self, tmp_path: Path, loading: str) -> None:
        """Two of three workers are killed, with a reload beside it; the third one has a request all the time."""
        with processes(tmp_path, 3, start_seconds=8) as service:
            service.settles(Expected(frozenset(), 3))
            with service.claiming("claim") as busy:
                service.set_loading(loading)
                for worker in service.serving() - {busy}:
                    service.lose(worker, "kill")
                service.reload()
                wait_until(
                    lambda: "workers serve, and the next one starts" in service.log.read_text(), seconds=LONG_SECONDS
                )
            if loading != GOOD:
                service.settles(Expected(frozenset({busy}), 1))
                service.set_loading(GOOD)
            service.settles(Expected(frozenset(), 3))
            assert service.stop() == 0

    def test_a_key_file_with_an_error_is_named_and_the_others_serve(self, tmp_path: Path) -> None:
        certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", key,
             "-out", certificate],
            check=True, capture_output=True,
        )  # fmt: skip
        with processes(tmp_path, 2, "--tls-certificate", str(certificate), "--tls-key", str(key)) as service:
            service.settles(Expected(frozenset(), 2))
            content = key.read_text()
            key.write_text("half of it\n")
            first, second = sorted(service.serving())
            service.lose(first, "kill")
            wait_until(lambda: "a new worker did not start: the certificate or its key" in service.log.read_text())
            service.settles(Expected(frozenset({second}), 1))
            key.write_text(content)
            service.settles(Expected(frozenset({second}), 2))

    @pytest.mark.one_database
    def test_health_checks_and_metrics_say_what_is_missing(self, tmp_path: Path) -> None:
        configuration = write_configuration(tmp_path, f"sqlite:///{tmp_path}/placement.db")
        text = configuration.read_text()
        port = free_port()
        with started(configuration, workers=2, options=("--metrics", str(port))) as server:
            log = configuration.with_suffix(".log")

            def health() -> dict[str, str]:
                with (
                    suppress(ConnectionError),  # the worker that is killed may have taken the connection
                    urlopen(f"{server.url}/healthcheck", timeout=LONG_SECONDS) as answer,  # which must be 200
                ):
                    return dict(json.load(answer))
                return {}

            wait_until(lambda: Scraped(port).sum("stead_workers", state="serving") == 2)
            assert health() == {"status": "ok"}
            configuration.write_text(text + "\n[stead]\nmax_queue = many\n")
            workers = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
            os.kill(int(workers[0]), signal.SIGKILL)
            problem = "1 of 2 workers serve: a new worker did not start; see the log"
            wait_until(lambda: health() == {"status": "ok", "warning": problem})
            assert "max_queue" in log.read_text()
            scraped = Scraped(port)
            assert scraped.sum("stead_workers", state="serving") == 1
            assert scraped.sum("stead_workers", state="missing") == 1
            assert scraped.sum("stead_worker_failures_total", cause="ended") == 1
            assert scraped.sum("stead_worker_failures_total", cause="not_started") >= 1
            configuration.write_text(text)
            wait_until(lambda: health() == {"status": "ok"})
