"""Web servers and proxies before a server of HTTP, each from when it answers until the block ends."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from tests.system.deploy.servers import free_port, module, owned_by, program, running, somebody

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

UWSGI_ECHO = """
import json
def application(environ, start_response):
    body = environ['wsgi.input'].read()
    target = environ['REQUEST_URI']
    line = json.dumps({"method": environ['REQUEST_METHOD'], "target": target, "body": body.hex()}).encode() + b"\\n"
    start_response("200 OK", [("Content-Length", str(len(line)))])
    return [line]
"""
GO_PROXY = """
package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

func main() {
	target, err := url.Parse("http://" + os.Args[2])
	if err != nil {
		panic(err)
	}
	panic(http.ListenAndServe(os.Args[1], httputil.NewSingleHostReverseProxy(target)))
}
"""


class _Echo(BaseHTTPRequestHandler):
    """Answers a request that a proxy made with what the proxy understood."""

    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # `path` has one slash where the target begins with several.
        shown = {"method": self.command, "target": self.requestline.split()[1], "body": body.hex()}
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.send_header("X-Read", json.dumps(shown))  # no body: the answer to HEAD has none
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def echo() -> Iterator[int]:
    """The port of a server that answers with what it was asked."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _nginx(place: Path, upstream: int, settings: str) -> AbstractContextManager[None]:
    port = int(place.name)
    user = f"user {somebody()[0]};" if os.geteuid() == 0 else ""
    (place / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; {user} pid {place}/pid; error_log {place}/log; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;\n"
        f"fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;\n"
        f"upstream stead {{ server 127.0.0.1:{upstream}; keepalive 2; }}\n"
        "map $http_upgrade $connection_upgrade { default upgrade; '' ''; }\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://stead; proxy_http_version 1.1;\n"
        f"proxy_next_upstream off; proxy_ignore_client_abort on; {settings} }} }} }}\n"
    )
    owned_by(somebody()[0], place)
    command = [program("nginx", "nginx-light"), "-c", str(place / "nginx.conf"), "-e", str(place / "log")]
    return running(command, dict(os.environ), port, place / "out", prefix="")


def nginx(place: Path, upstream: int) -> AbstractContextManager[None]:
    """As samples/deploy/nginx.conf has it."""
    return _nginx(place, upstream, 'proxy_set_header Connection "";')


def nginx_with_upgrades(place: Path, upstream: int) -> AbstractContextManager[None]:
    """With the usual headers for WebSocket, and kept connections."""
    headers = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;"
    return _nginx(place, upstream, headers)


def haproxy(place: Path, upstream: int) -> AbstractContextManager[None]:
    """With connections that clients share."""
    port = int(place.name)
    (place / "haproxy.cfg").write_text(
        "defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n http-reuse always\n"
        f"frontend f\n bind 127.0.0.1:{port}\n default_backend b\nbackend b\n server s 127.0.0.1:{upstream}\n"
    )
    command = [program("haproxy", "haproxy"), "-db", "-f", str(place / "haproxy.cfg")]
    return running(command, dict(os.environ), port, place / "out", prefix="")


def apache(place: Path, upstream: int) -> AbstractContextManager[None]:
    """With `upgrade=any`."""
    port = int(place.name)
    user, group = somebody()
    path = program("apache2", "apache2")
    names = ("mpm_event", "authz_core", "proxy", "proxy_http")
    (place / "httpd.conf").write_text(
        "".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n" for name in names)
        + f"ServerRoot {place}\nListen 127.0.0.1:{port}\nServerName localhost\nPidFile {place}/pid\n"
        f"ErrorLog {place}/error.log\nDefaultRuntimeDir {place}\nUser {user}\nGroup {group}\n"
        f"ProxyPass / http://127.0.0.1:{upstream}/ upgrade=any enablereuse=on\n"
    )
    owned_by(user, place)
    return running(
        [path, "-f", str(place / "httpd.conf"), "-DFOREGROUND"], dict(os.environ), port, place / "out", prefix=""
    )


def go(place: Path, upstream: int) -> AbstractContextManager[None]:
    """Go's `httputil.ReverseProxy`, as Caddy and Traefik use it."""
    compiler, port = program("go", "golang-go"), int(place.name)
    (place / "proxy.go").write_text(GO_PROXY)
    environment = {**os.environ, "GOCACHE": str(place / "cache"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
    build = [compiler, "build", "-o", str(place / "proxy"), str(place / "proxy.go")]
    subprocess.run(build, env=environment, check=True, capture_output=True, timeout=300)
    command = [str(place / "proxy"), f"127.0.0.1:{port}", f"127.0.0.1:{upstream}"]
    return running(command, environment, port, place / "out", prefix="")


PROXIES: dict[str, Callable[[Path, int], AbstractContextManager[None]]] = {
    "nginx": nginx,
    "nginx with the headers for WebSocket": nginx_with_upgrades,
    "HAProxy": haproxy,
    "Apache with upgrade=any": apache,
    "Go": go,
}


@contextmanager
def proxy(name: str, directory: Path, upstream: int) -> Iterator[tuple[str, int]]:
    """The address of a proxy before the server at the port *upstream*."""
    port = free_port()
    place = directory / str(port)
    place.mkdir()
    with PROXIES[name](place, upstream):
        yield "127.0.0.1", port


@contextmanager
def nginx_as_reader(directory: Path) -> Iterator[tuple[str, int]]:
    """The address of an nginx whose answers repeat what it has read."""
    with ExitStack() as stack:
        yield stack.enter_context(proxy("nginx", directory, stack.enter_context(echo())))


@contextmanager
def uwsgi(directory: Path) -> Iterator[tuple[str, int]]:
    """The address of a uWSGI whose answers repeat what it has read; of each connection it reads one request."""
    packages = ("uwsgi-core", "uwsgi-plugin-python3")
    path, port = program("uwsgi", *packages), free_port()
    module("/usr/lib/uwsgi/plugins/python3_plugin.so", *packages)
    (directory / "echo.py").write_text(UWSGI_ECHO)
    command = [
        path,
        "--plugins",
        "python3",
        "--http-socket",
        f"127.0.0.1:{port}",
        "--wsgi-file",
        str(directory / "echo.py"),
    ]
    with running(
        [*command, "--master", "--die-on-term", "--disable-logging"],
        dict(os.environ),
        port,
        directory / "uwsgi.log",
        prefix="",
    ):
        yield "127.0.0.1", port
