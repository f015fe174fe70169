"""Apache, nginx and uWSGI, from a distribution's packages, as docs/deployment.md shows them; and gunicorn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.distributions.wheels import NAMES, build, install
from tests.servers.stead import STEAD
from tests.system.api.client import NEWEST
from tests.system.deploy.servers import (
    SAMPLES,
    configuration,
    free_port,
    module,
    owned_by,
    program,
    running,
    sample,
    somebody,
)
from tests.system.segments.cases import LONGEST_BODY, cases
from tests.system.segments.runs import Door, Sender
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(120)  # starts web servers

HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {NEWEST}", "Content-Type": "application/json"}
LONGEST_POLL_SECONDS = 60  # longer than a client here waits
SMALL_BODIES = f"[stead]\nmax_body_size = {LONGEST_BODY}\n"
UUID = "11111111-2222-4333-8444-555555555555"


class Client:
    """One connection, kept between requests."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def __call__(
        self, method: str, path: str, body: Any = None, *, chunked: bool = False, headers: dict[str, str] | None = None
    ) -> Any:
        data: Any = None if body is None else json.dumps(body).encode()
        if chunked:
            data = iter([data[:10], data[10:]])
        self._connection.request(method, path, data, HEADERS | (headers or {}), encode_chunked=chunked)
        self.answer = self._connection.getresponse()
        self.text = self.answer.read()
        return self.answer.status

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def check(port: int, *, longest_query: int = 60_000, takes_chunks: bool = True, prefix: str = "/placement") -> None:
    """What clients rely on, behind whichever server."""
    with closing(Client(port)) as ask:
        _check(ask, port, longest_query, takes_chunks=takes_chunks, prefix=prefix)


def _check(ask: Client, port: int, longest_query: int, *, takes_chunks: bool, prefix: str) -> None:
    assert [ask("GET", path) for path in (prefix or "/", f"{prefix}/")] == [200, 200]
    assert ask.json["versions"][0]["max_version"] == NEWEST
    assert ask("GET", f"{prefix}/healthcheck") == 200
    assert ask.json == {"status": "ok"}
    assert ask("POST", f"{prefix}/resource_providers", {"name": "a host", "uuid": UUID}) == 200
    assert ask.answer.headers["location"] == f"http://127.0.0.1:{port}{prefix}/resource_providers/{UUID}"
    assert {link["href"].partition(UUID)[0] for link in ask.json["links"]} == {f"{prefix}/resource_providers/"}
    inventory = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
    path = f"{prefix}/resource_providers/{UUID}/inventories"
    assert ask("PUT", path, inventory, chunked=takes_chunks) == 200, ask.text
    assert ask("GET", f"{prefix}/allocation_candidates?resources=VCPU:1") == 200
    assert len(ask.json["allocation_requests"]) == 1
    assert ask("GET", f"{prefix}/resource_providers?name=a%20host") == 200
    assert len(ask.json["resource_providers"]) == 1
    assert ask("GET", f"{prefix}/traits/%2Fetc") == 404
    assert ask("DELETE", f"{prefix}/resource_providers/{UUID}") == 204
    names = ",".join(f"CUSTOM_{number:06}" for number in range(longest_query))[: longest_query - 20]
    assert ask("GET", f"{prefix}/resource_providers?required={names}") == 400, ask.answer.status
    assert "placement.undefined_code" in ask.text.decode()


UNPREPARED = ("/", "/traits", "/traits/CUSTOM_PUT", "/resource_classes", "/resource_classes/CUSTOM_PUT")
"""Targets at which a request succeeds on an empty database."""


def check_unread_bodies(port: int, *, prefix: str = "/placement") -> None:
    """A body that comes after its head, and that no handler reads, ends no connection unannounced."""
    sender = Sender(Door(("127.0.0.1", port), None, [0], "another server", ends_exactly=False))
    try:
        for case in cases():
            if case.kind != "a success" or (case.target in UNPREPARED and case.method != "POST"):
                sender.send(replace(case, target=prefix + case.target), [len(prefix) + len(case.head)])
    finally:
        sender.close()
    assert sender.connections_made <= sender.announced_ends + 1


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that those who serve can reach: pytest's own ones are root's."""
    with TemporaryDirectory(prefix="stead-deploy-") as name:
        yield Path(name)


def test_nginx_passes_requests_to_a_socket(place: Path) -> None:
    nginx, port, path = program("nginx", "nginx-light"), free_port(), place / "stead.sock"
    environment = configuration(place, f"[oslo_middleware]\nenable_proxy_headers_parsing = true\n{SMALL_BODIES}")
    (place / "http.conf").write_text(sample("nginx-http.conf", **{"/run/stead/stead.sock": str(path)}))
    user = f"user {somebody()[0]};" if os.geteuid() == 0 else ""
    (place / "nginx.conf").write_text(
        f"daemon off; {user} pid {place}/pid; error_log {place}/nginx.log; events {{}}\n"
        f"http {{ access_log off; include {place}/http.conf; client_body_temp_path {place}/body;\n"
        f"proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/f;\n"
        f"uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;\n"
        f"server {{ listen 127.0.0.1:{port}; include {SAMPLES}/nginx.conf; }} }}\n"
    )
    served = [*STEAD, "--json", "serve", "--socket", str(path), "--prefix", "/placement"]
    log = place / "stead.log"
    with log.open("wb") as errors:
        stead = subprocess.Popen(served, env=environment, stdout=subprocess.PIPE, stderr=errors)
    try:
        assert stead.stdout is not None
        assert stead.stdout.readline(), log.read_text()
        path.chmod(0o666)  # the sample's users are of one group
        owned_by(somebody()[0], place)
        with running([nginx, "-c", str(place / "nginx.conf"), "-e", str(place / "nginx.log")], environment, port, log):
            check(port)
            check_unread_bodies(port)
        assert '127.0.0.1 "GET /placement/resource_providers?name=a%20host" status: 200' in log.read_text()
    finally:
        stead.terminate()
        stead.communicate()


def test_apache_and_mod_wsgi_serve_it(place: Path) -> None:
    packages = ("apache2", "libapache2-mod-wsgi-py3")
    apache, port = program("apache2", *packages), free_port()
    modules = module("/usr/lib/apache2/modules/mod_wsgi.so", *packages).parent
    user, group = somebody()
    environment = configuration(place, SMALL_BODIES)
    text = sample(
        "apache.conf",
        **{
            "/opt/stead/share": str(SAMPLES),
            "user=placement group=placement": f"user={user} group={group}" if os.geteuid() == 0 else "",
            "python-home=/opt/stead": f"python-path={environment.pop('PYTHONPATH')}",
        },
    )
    (place / "httpd.conf").write_text(
        "".join(f"LoadModule {name}_module {modules}/mod_{name}.so\n" for name in ("mpm_event", "authz_core", "wsgi"))
        + f"ServerRoot {place}\nListen 127.0.0.1:{port}\nServerName localhost\nPidFile {place}/pid\n"
        f"ErrorLog {place}/error.log\nDefaultRuntimeDir {place}\nWSGISocketPrefix {place}/wsgi\n"
        f"User {user}\nGroup {group}\n{text}"
    )
    owned_by(user, place)
    command = [apache, "-f", str(place / "httpd.conf"), "-DFOREGROUND"]
    with running(command, environment, port, place / "error.log"):
        check(port)
        check_unread_bodies(port)
    assert (
        '127.0.0.1 "GET /placement/resource_providers?name=a%20host" status: 200' in (place / "error.log").read_text()
    )


@pytest.mark.parametrize("forked_later", [False, True], ids=["as the sample has it", "forked after loading"])
def test_uwsgi_serves_it(place: Path, forked_later: bool) -> None:
    packages = ("uwsgi-core", "uwsgi-plugin-python3")
    uwsgi, port, metrics = program("uwsgi", *packages), free_port(), free_port()
    module("/usr/lib/uwsgi/plugins/python3_plugin.so", *packages)
    (place / "metrics").mkdir()
    environment = configuration(place, f"{SMALL_BODIES}metrics = {metrics}\nmetrics_directory = {place}/metrics\n")
    paths = environment.pop("PYTHONPATH").split(os.pathsep)
    text = sample(
        "uwsgi.ini",
        **{
            "home = /opt/stead": "\n".join(f"pythonpath = {path}" for path in reversed(paths)),
            "127.0.0.1:8778": f"127.0.0.1:{port}",
        },
    )
    (place / "uwsgi.ini").write_text(text.replace("lazy-apps = true", "") if forked_later else text)
    with running([uwsgi, "--ini", str(place / "uwsgi.ini")], environment, port, place / "log"):
        check(port, longest_query=30_000, takes_chunks=False)  # as docs/api.md has it
        # Nine are those of `check`; probes of health are not counted.
        wait_until(lambda: _requests_counted(metrics) >= 9, "the workers' counts do not come together")
        check_unread_bodies(port)
    assert '127.0.0.1 "GET /placement/resource_providers?name=a%20host" status: 200' in (place / "log").read_text()


INI_OF_DEPLOYMENT_TOOLS = """\
[uwsgi]
plugins = python3
http-socket = 127.0.0.1:{port}
{load}
{paths}
master = true
processes = 3
enable-threads = true
lazy-apps = true
thunder-lock = true
need-app = true
add-header = Connection: close
buffer-size = 65535
socket-timeout = 30
worker-reload-mercy = 80
die-on-term = true
exit-on-reload = false
hook-master-start = unix_signal:15 gracefully_kill_them_all
log-x-forwarded-for = true
procname-prefix-spaced = placement-api:
vacuum = true
"""
"""With the options that kolla-ansible, openstack-helm, OpenStack-Ansible and devstack set: one thread per process."""


@pytest.mark.parametrize(
    "load", ["module = placement.wsgi.api:application", "wsgi-file = {installed}/bin/placement-api"]
)
def test_uwsgi_serves_it_by_the_names_and_options_of_deployment_tools(place: Path, load: str) -> None:
    packages = ("uwsgi-core", "uwsgi-plugin-python3")
    uwsgi, port, installed = program("uwsgi", *packages), free_port(), place / "installed"
    module("/usr/lib/uwsgi/plugins/python3_plugin.so", *packages)
    install(build(NAMES, place / "wheel"), target=installed)
    environment = configuration(place, SMALL_BODIES)
    paths = [str(installed), *environment.pop("PYTHONPATH").split(os.pathsep)]
    (place / "placement-api.ini").write_text(
        INI_OF_DEPLOYMENT_TOOLS.format(
            port=port,
            load=load.format(installed=installed),
            paths="\n".join(f"pythonpath = {path}" for path in reversed(paths)),
        )
    )
    command = [uwsgi, "--ini", str(place / "placement-api.ini")]
    with running(command, environment, port, place / "log", prefix=""):
        check(port, longest_query=30_000, takes_chunks=False, prefix="")
        check_unread_bodies(port, prefix="")
        with closing(Client(port)) as ask:
            check_watching_with_one_thread(ask)
    assert '127.0.0.1 "GET /resource_providers?name=a%20host" status: 200' in (place / "log").read_text()


def check_watching_with_one_thread(ask: Client) -> None:
    """No watcher may hold a process: a long poll returns before the timeout of *ask*, and a stream is refused."""
    own = {"OpenStack-API-Version": f"placement {NEWEST}, stead 1.0"}
    assert ask("GET", "/changes", headers=own) == 200
    path = f"/changes?since={quote(ask.json['token'])}&timeout={LONGEST_POLL_SECONDS}"
    assert ask("GET", path, headers=own) == 200
    assert (ask.json["providers"], ask.json["consumers"]) == ([], [])
    assert ask("GET", "/changes", headers=own | {"Accept": "text/event-stream"}) == 503
    assert "one thread per process" in ask.text.decode()


@pytest.mark.parametrize(("worker", "is_threaded"), [("sync", False), ("gthread", True)], ids=["sync", "threads"])
def test_gunicorn_serves_it(place: Path, worker: str, is_threaded: bool) -> None:
    port = free_port()
    environment = configuration(place, SMALL_BODIES)
    command = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--workers", "2"]
    command += ["--worker-class", worker, "--limit-request-line", "0", "--graceful-timeout", "5"]
    command += ["--threads", "4"] if is_threaded else []
    with running([*command, "stead.wsgi:application"], environment, port, place / "log", prefix=""):
        check(port, prefix="")
        check_unread_bodies(port, prefix="")
        if not is_threaded:
            with closing(Client(port)) as ask:
                check_watching_with_one_thread(ask)


def _requests_counted(port: int) -> float:
    from urllib.request import urlopen

    from prometheus_client.parser import text_string_to_metric_families

    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == "stead_request_duration_seconds_count"
        )
