"""The pages under other WSGI servers. With one thread per process, they poll."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.system.browser.site import Api, fill
from tests.system.browser.window import Window, used, wait_for
from tests.system.deploy.servers import configuration, free_port, module, program, running

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.timeout(180)  # a busy machine takes long to start servers and a browser

GUNICORN = [sys.executable, "-m", "gunicorn", "--workers", "2", "--graceful-timeout", "5", "--limit-request-line", "0"]


@pytest.mark.parametrize("server", ["gunicorn", "uwsgi"])
def test_pages_poll_a_server_with_one_thread_per_process(chromium: Browser, tmp_path: Path, server: str) -> None:
    port = free_port()
    environment = configuration(tmp_path)
    if server == "uwsgi":
        packages = ("uwsgi-core", "uwsgi-plugin-python3")
        command = [program("uwsgi", *packages), "--plugins", "python3", "--http-socket", f"127.0.0.1:{port}"]
        module("/usr/lib/uwsgi/plugins/python3_plugin.so", *packages)
        command += ["--master", "--processes", "2", "--lazy-apps", "--need-app", "--enable-threads", "--die-on-term"]
        command += ["--buffer-size", "65535", "--module", "stead.wsgi:application"]
        for path in reversed(environment.pop("PYTHONPATH").split(":")):
            command += ["--pythonpath", path]
    else:
        command = [*GUNICORN, "--worker-class", "sync", "--bind", f"127.0.0.1:{port}", "stead.wsgi:application"]
    url = f"http://127.0.0.1:{port}"
    with running(command, environment, port, tmp_path / "log", prefix=""):
        fill(url)
        context = chromium.new_context()
        window = Window(context, url)
        page = window.open("/ui/", is_live=False)
        wait_for(page, "globalThis.stead?.live.status.value === 'polling'")
        with Api(url) as api:
            api.claim("host-006", 60)
            wait_for(page, "stead.live.site.sums.VCPU.used[6] === 60")
            wait_for(page, "document.querySelector('[data-tree=host-006][data-of=free]').textContent === '4'")
            assert used(page) == api.used()
            for path in (
                "/ui/activity",
                "/ui/consumers",
                "/ui/ask?resources=VCPU:1",
                f"/ui/providers/{api.uuid('host-006')}",
            ):
                answer = page.goto(url + path)
                assert answer is not None
                assert answer.status == 200
        context.close()
        assert window.faults == []
