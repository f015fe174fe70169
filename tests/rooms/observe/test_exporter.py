"""The port of the metrics, in this process."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.request import urlopen

from stead.observe.exporter import Exporter
from stead.observe.metrics import Recorder
from tests.system.deploy.servers import free_port

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_nothing_of_the_beginning_is_left_to_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may fork its workers as soon as it has loaded the application."""
    listened: list[threading.Thread] = []
    listen = Exporter._listen

    def noted(exporter: Exporter) -> None:
        listened.append(threading.current_thread())
        listen(exporter)

    monkeypatch.setattr(Exporter, "_listen", noted)
    port = free_port()
    exporter = Exporter(Recorder(), lambda: (), tmp_path, ("127.0.0.1", port))
    exporter.start()
    try:
        with closing(urlopen(f"http://127.0.0.1:{port}/metrics", timeout=50)) as answer:
            assert b"stead_worker_resident_bytes" in answer.read()
        assert listened == [threading.current_thread()]
    finally:
        exporter.stop()
