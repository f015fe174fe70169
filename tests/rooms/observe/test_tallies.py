"""What is counted is neither lost nor counted twice: under threads, over processes, when workers end."""

import os
import subprocess
import sys
import threading
import time

import orjson

from stead.observe import exporter
from stead.observe.exporter import Reports
from stead.observe.metrics import CANDIDATES, CLAIMS, METRICS, Recorder, Tallies, cause


def counted(tallies):
    return {(name, labels): values for name, labels, values in tallies}


def test_nothing_is_lost_under_threads():
    recorder = Recorder()

    def record():
        for _ in range(5_000):
            recorder.record(CLAIMS, ("written",))

    threads = [threading.Thread(target=record) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        recorder.tallies()
    assert counted(recorder.tallies()) == {(CLAIMS.name, ("written",)): [40_000.0]}


def test_a_value_falls_into_the_bucket_whose_bound_it_does_not_exceed():
    tallies = Tallies()
    for value in (0.0, 1.0, 1.5, 10.0, 1e9):
        tallies.add(CANDIDATES, (), value)
    ((_, _, values),) = tallies
    assert values == [1, 1, 2, 0, 0, 0, 0, 1, 1.0 + 1.5 + 10.0 + 1e9]


def test_what_a_worker_of_another_version_counts_otherwise_is_left_out():
    tallies = Tallies()
    tallies.merge([("x", (), [1.0, 2.0]), ("x", (), [1.0]), ("x", (), [1.0, 1.0])])
    assert counted(tallies) == {("x", ()): [2.0, 3.0]}


def write_as(pid, directory, number, written):
    report = {"written": written, "counted": [[CLAIMS.name, ["written"], [number]]], "measured": [["g", [str(pid)], 1]]}
    (directory / f"{pid}-1.json").write_bytes(orjson.dumps(report))


def gone_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_ended_workers_counted_stays_and_their_files_do_not_pile_up(tmp_path):
    own = Reports(tmp_path)
    for number in range(3):
        write_as(gone_process(), tmp_path, 5.0, time.time() - exporter.STALE_SECONDS - 1)
        sums, present = own.read()
        assert counted(sums)[CLAIMS.name, ("written",)] == [5.0 * (number + 1)]
        assert present == []
        assert [path.name for path in tmp_path.iterdir()] == ["gone.json"]
    write_as(os.getpid(), tmp_path, 2.0, time.time())
    sums, (report,) = own.read()
    assert counted(sums)[CLAIMS.name, ("written",)] == [17.0]
    assert report.worker == str(os.getpid())


def test_a_worker_that_hangs_is_not_given_up(tmp_path):
    write_as(os.getpid(), tmp_path, 5.0, time.time() - exporter.STALE_SECONDS - 1)
    sums, present = Reports(tmp_path).read()
    assert (counted(sums)[CLAIMS.name, ("written",)], present) == ([5.0], [])
    assert list(tmp_path.glob(f"{os.getpid()}-*"))


def test_a_file_that_is_none_of_ours_does_no_harm(tmp_path):
    for name, text in (("1-1.json", "{"), ("2-1.json", "[]"), ("x.json", '{"written": 1, "counted": 2}')):
        (tmp_path / name).write_text(text)
    sums, present = Reports(tmp_path).read()
    assert (counted(sums), present) == ({}, [])


def test_metrics_have_the_names_that_prometheus_wants():
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        assert metric.help.endswith(".")


def test_the_name_of_an_error_is_a_label():
    assert cause("CapacityExceeded") == "capacity_exceeded"
