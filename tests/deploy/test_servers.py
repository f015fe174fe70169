"""Apache, nginx and uWSGI, from a distribution's packages, with the configuration that docs/deployment.md shows."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from tests.deploy.servers import (
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
from tests.servers.stead import STEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(120)

HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39", "Content-Type": "application/json"}
UUID = "11111111-2222-4333-8444-555555555555"


class Client:
    """One connection, kept between requests."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=30)

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def __call__(self, method: str, path: str, body: Any = None, *, chunked: bool = False) -> Any:
        data: Any = None if body is None else json.dumps(body).encode()
        if chunked:
            data = iter([data[:10], data[10:]])
        self._connection.request(method, path, data, HEADERS, encode_chunked=chunked)
        self.answer = self._connection.getresponse()
        self.text = self.answer.read()
        return self.answer.status

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def check(port: int, *, longest_query: int = 60_000, takes_chunks: bool = True) -> None:
    """What clients rely on, behind whichever server."""
    with closing(Client(port)) as ask:
        _check(ask, port, longest_query, takes_chunks=takes_chunks)


def _check(ask: Client, port: int, longest_query: int, *, takes_chunks: bool) -> None:
    assert [ask("GET", path) for path in ("/placement", "/placement/")] == [200, 200]
    assert ask.json["versions"][0]["max_version"] == "1.39"
    assert ask("GET", "/placement/healthcheck") == 200
    assert ask.json == {"status": "ok"}
    assert ask("POST", "/placement/resource_providers", {"name": "a host", "uuid": UUID}) == 200
    assert ask.answer.headers["location"] == f"http://127.0.0.1:{port}/placement/resource_providers/{UUID}"
    assert {link["href"].partition(UUID)[0] for link in ask.json["links"]} == {"/placement/resource_providers/"}
    inventory = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
    path = f"/placement/resource_providers/{UUID}/inventories"
    assert ask("PUT", path, inventory, chunked=takes_chunks) == 200, ask.text
    assert ask("GET", "/placement/allocation_candidates?resources=VCPU:1") == 200
    assert len(ask.json["allocation_requests"]) == 1
    assert ask("GET", "/placement/resource_providers?name=a%20host") == 200
    assert len(ask.json["resource_providers"]) == 1
    assert ask("GET", "/placement/traits/%2Fetc") == 404
    assert ask("DELETE", f"/placement/resource_providers/{UUID}") == 204
    names = ",".join(f"CUSTOM_{number:06}" for number in range(longest_query))[: longest_query - 20]
    assert ask("GET", f"/placement/resource_providers?required={names}") == 400, ask.answer.status
    assert "placement.undefined_code" in ask.text.decode()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that those who serve can reach: pytest's own ones are root's."""
    with TemporaryDirectory(prefix="stead-deploy-") as name:
        yield Path(name)


def test_nginx_passes_requests_to_a_socket(place: Path) -> None:
    nginx, port, path = program("nginx", "nginx-light"), free_port(), place / "stead.sock"
    environment = configuration(place, "[oslo_middleware]\nenable_proxy_headers_parsing = true\n")
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
        assert '127.0.0.1 "GET /placement/resource_providers?name=a%20host" status: 200' in log.read_text()
    finally:
        stead.terminate()
        stead.communicate()


def test_apache_and_mod_wsgi_serve_it(place: Path) -> None:
    packages = ("apache2", "libapache2-mod-wsgi-py3")
    apache, port = program("apache2", *packages), free_port()
    modules = module("/usr/lib/apache2/modules/mod_wsgi.so", *packages).parent
    user, group = somebody()
    environment = configuration(place)
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
        f"ErrorLog {place}/error.log\nDefaultRuntimeDir {place}\nUser {user}\nGroup {group}\n{text}"
    )
    owned_by(user, place)
    command = [apache, "-f", str(place / "httpd.conf"), "-DFOREGROUND"]
    with running(command, environment, port, place / "error.log"):
        check(port)
    assert (
        '127.0.0.1 "GET /placement/resource_providers?name=a%20host" status: 200' in (place / "error.log").read_text()
    )


@pytest.mark.parametrize("forked_later", [False, True], ids=["as the sample has it", "forked after loading"])
def test_uwsgi_serves_it(place: Path, forked_later: bool) -> None:
    packages = ("uwsgi-core", "uwsgi-plugin-python3")
    uwsgi, port, metrics = program("uwsgi", *packages), free_port(), free_port()
    module("/usr/lib/uwsgi/plugins/python3_plugin.so", *packages)
    (place / "metrics").mkdir()
    environment = configuration(place, f"[stead]\nmetrics = {metrics}\nmetrics_directory = {place}/metrics\n")
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
        until = time.monotonic() + 20
        while _requests_counted(metrics) < 9:  # those of `check`, probes of health not counted
            assert time.monotonic() < until, "the workers' counts do not come together"
            time.sleep(0.2)
    assert '127.0.0.1 "GET /placement/resource_providers?name=a%20host" status: 200' in (place / "log").read_text()


def _requests_counted(port: int) -> float:
    from urllib.request import urlopen

    from prometheus_client.parser import text_string_to_metric_families

    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == "stead_request_duration_seconds_count"
        )
