"""Keystone's middleware is in its place; what it does is its own tests' business."""

import json
import os
import pickle
import socketserver
import sys
import threading
import traceback
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stead.config import ConfigError

VALID = "valid-token"


def test_without_the_package_the_error_names_the_extra(client, settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "keystonemiddleware", None)
    with pytest.raises(ConfigError, match=r"stead\[keystone\]"):
        client(settings())


class FakeKeystone(BaseHTTPRequestHandler):
    """As much of Keystone as validating a token needs."""

    def do_GET(self):
        if self.path.startswith("/v3/auth/tokens"):
            self._validate()
        else:
            links = [{"rel": "self", "href": f"http://{self.headers['Host']}/v3/"}]
            version = {"id": "v3.14", "status": "stable", "links": links}
            body = {"version": version} if self.path.startswith("/v3") else {"versions": {"values": [version]}}
            self._send(200 if self.path.startswith("/v3") else 300, body)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self._send(201, self._token("placement", ["service"]), token="service-token")

    def _validate(self):
        self.server.asked.append(self.headers["X-Subject-Token"])
        if self.headers["X-Subject-Token"] != VALID:
            self._send(404, {"error": {"code": 404, "message": "no", "title": "Not Found"}})
        else:
            self._send(200, self._token("alice", ["admin", "reader"]), token=VALID)

    def _token(self, user, roles):
        domain = {"id": "default", "name": "Default"}
        endpoint = {"id": "e", "interface": "internal", "region": "r", "region_id": "r"}
        endpoint["url"] = f"http://{self.headers['Host']}/v3"
        return {
            "token": {
                "methods": ["password"],
                "user": {"id": f"{user}-id", "name": user, "domain": domain},
                "project": {"id": "project-id", "name": "project", "domain": domain},
                "roles": [{"id": role, "name": role} for role in roles],
                "expires_at": "2099-01-01T00:00:00.000000Z",
                "issued_at": "2020-01-01T00:00:00.000000Z",
                "catalog": [{"type": "identity", "id": "i", "name": "keystone", "endpoints": [endpoint]}],
            }
        }

    def _send(self, status, body, token=None):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if token:
            self.send_header("X-Subject-Token", token)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


class Memcached(socketserver.StreamRequestHandler):
    """As much of memcached as a cache of tokens needs; what it has is shared by all connections."""

    def handle(self):
        while command := self.rfile.readline().split():
            match command:
                case [b"set", key, flags, _, length, *_]:
                    self.server.kept[key] = flags, self.rfile.read(int(length))
                    self.rfile.readline()
                    self.wfile.write(b"STORED\r\n")
                case [b"get", key]:
                    if key in self.server.kept:
                        flags, value = self.server.kept[key]
                        self.wfile.write(b"VALUE %s %s %d\r\n%s\r\n" % (key, flags, len(value), value))
                    self.wfile.write(b"END\r\n")


@contextmanager
def running(server):
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def identity():
    """A Keystone that counts which tokens it was asked about."""
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeKeystone) as server, running(server):
        server.asked = []
        yield server


@pytest.fixture
def memcached():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Memcached) as server:
        server.daemon_threads = True  # clients keep their connections
        server.kept = {}
        with running(server):
            yield server


@pytest.fixture
def behind(tmp_path, client, settings):
    """The application behind keystonemiddleware, with lines of ``[keystone_authtoken]``, and variables."""
    pytest.importorskip("keystonemiddleware.auth_token", reason="needs the extra keystone")

    def make(*lines, **variables):
        file = tmp_path / "placement.conf"
        file.write_text("\n".join(["[keystone_authtoken]", *lines]))
        return client(settings(file, **variables))

    return make


def login(identity):
    return [
        "www_authenticate_uri = http://keystone.example/",
        f"auth_url = http://127.0.0.1:{identity.server_port}",
        "auth_type = password",
        "username = placement",
        "password = s3sam3",
        "user_domain_id = default",
        "project_name = service",
        "project_domain_id = default",
    ]


@pytest.fixture
def keystone(behind, identity):
    return behind(*login(identity))


# The library and what it imports use parts of the standard library that are on their way out.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def test_without_a_valid_token_the_answer_is_401_and_says_where_to_get_one(keystone):
    for headers in ({}, {"X_Auth_Token": "forged"}, {"X_User_Id": "root", "X_Identity_Status": "Confirmed"}):
        refused = keystone.get(**headers)
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == 'Keystone uri="http://keystone.example/"'


def test_a_valid_token_stands_for_what_keystone_says(keystone):
    assert keystone.get(X_Auth_Token=VALID, X_Roles="service", OpenStack_System_Scope="all").status == 200
    who = keystone.credentials
    assert (who.user_id, who.project_id, who.roles) == ("alice-id", "project-id", ("admin", "reader"))
    assert who.system_scope is None


def test_only_a_credential_that_authenticated_has_a_share_of_the_threads(keystone):
    keystone.get(X_Auth_Token="forged")
    keystone.get("/", X_Auth_Token=VALID)
    assert keystone.accepted == 0
    keystone.get(X_Auth_Token=VALID)
    assert keystone.accepted == 1


def test_root_and_healthcheck_go_around_keystone(keystone):
    for path in ("/", "", "/healthcheck"):
        assert keystone.get(path, X_Auth_Token="forged", X_User_Id="root").status == 200
        assert keystone.credentials.user_id is None


def test_an_unvalidated_request_that_was_let_through_is_401(behind, identity):
    delayed = behind(*login(identity), "delay_auth_decision = true")
    refused = delayed.get()
    assert refused.status == 401
    assert refused.headers["www-authenticate"] == 'Keystone uri="http://keystone.example/"'
    assert delayed.reached is None


def test_without_keystone_the_answer_is_503_and_open_paths_are_open(behind, identity):
    lonely = behind(*login(identity), "http_request_max_retries = 0")
    identity.server_close()
    identity.shutdown()
    assert lonely.get(X_Auth_Token=VALID).status == 503
    assert lonely.get("/").status == 200


def test_a_variable_of_the_environment_outvotes_the_file(behind, identity):
    wrong = [line for line in login(identity) if not line.startswith("auth_url")]
    variable = {"OS_KEYSTONE_AUTHTOKEN__AUTH_URL": f"http://127.0.0.1:{identity.server_port}"}
    assert behind(*wrong, "auth_url = http://127.0.0.1:9", **variable).get(X_Auth_Token=VALID).status == 200


def test_how_to_log_in_may_stand_in_a_section_of_its_own(behind, identity):
    elsewhere = behind("auth_section = as_whom", "www_authenticate_uri = http://k/", "[as_whom]", *login(identity)[1:])
    assert elsewhere.get(X_Auth_Token=VALID).status == 200
    with pytest.raises(ConfigError, match=r"\[as_whom\] auth_type is not set"):
        behind("auth_section = as_whom")


@pytest.mark.parametrize(("line", "asked"), [("", 1), ("token_cache_time = 300", 1), ("token_cache_time = -1", 3)])
def test_keystone_is_asked_as_often_as_the_cache_is_configured_to(behind, identity, line, asked):
    cached = behind(*login(identity), line)
    assert [cached.get(X_Auth_Token=VALID).status for _ in range(3)] == [200, 200, 200]
    assert identity.asked == [VALID] * asked


@pytest.mark.parametrize("lines", [[], ["memcache_use_advanced_pool = false"]])
@pytest.mark.parametrize("strategy", ["None", "MAC"])
def test_processes_share_what_they_know_in_memcached(behind, identity, memcached, lines, strategy):
    lines = [f"memcached_servers = 127.0.0.1:{memcached.server_address[1]}", *lines]
    lines += [f"memcache_security_strategy = {strategy}", "memcache_secret_key = s3cr3t"]
    first, second = (behind(*login(identity), *lines) for _ in range(2))
    assert [each.get(X_Auth_Token=VALID).status for each in (first, second, first)] == [200, 200, 200]
    assert second.credentials.user_id == "alice-id"
    assert identity.asked == [VALID]
    assert len(memcached.kept) == 1
    assert VALID.encode() not in b"".join([*memcached.kept])


class Code:
    """Something whose pickle runs code when it is read."""

    def __init__(self, directory):
        self.directory = str(directory)

    def __reduce__(self):
        return os.mkdir, (self.directory,)


@pytest.mark.parametrize("lines", [[], ["memcache_use_advanced_pool = false"]])
@pytest.mark.parametrize("strategy", ["None", "MAC"])
def test_who_can_write_to_memcached_runs_no_code(behind, identity, memcached, tmp_path, lines, strategy):
    lines = [f"memcached_servers = 127.0.0.1:{memcached.server_address[1]}", *lines]
    lines += [f"memcache_security_strategy = {strategy}", "memcache_secret_key = s3cr3t"]
    first, second = (behind(*login(identity), *lines) for _ in range(2))
    assert first.get(X_Auth_Token=VALID).status == 200
    planted = pickle.dumps(Code(tmp_path / "planted"), protocol=0)
    for key in memcached.kept:
        memcached.kept[key] = b"1", planted  # the flag of pickles
    assert second.get(X_Auth_Token=VALID).status == 200
    assert not (tmp_path / "planted").exists()
    assert identity.asked == [VALID, VALID]  # it counts as not cached, and is replaced
    assert planted not in [value for _, value in memcached.kept.values()]


@pytest.mark.parametrize(
    ("missing", "lines", "reason"),
    [
        ("auth_url", [], "auth_url"),
        ("auth_type", [], r"\[keystone_authtoken\] auth_type is not set"),
        ("auth_type", ["auth_type = pasword"], "pasword"),
        ("", ["token_cache_time = for ever"], "token_cache_time"),
        ("password", ["password = my$s3sam3"], r"write `\$\$` for"),
        ("", ["memcached_servers = 127.0.0.1:9", "memcache_security_strategy = MAC"], "memcache_secret_key"),
        ("", ["memcached_servers = 127.0.0.1:9", "memcache_sasl_enabled = true"], "python-binary-memcached"),
    ],
)
def test_a_configuration_that_can_not_work_stops_the_start(behind, identity, monkeypatch, missing, lines, reason):
    monkeypatch.setattr("stead.auth.authentication.find_spec", lambda name: None)  # as where only our dependencies are
    given = [line for line in login(identity) if not (missing and line.startswith(missing))]
    with pytest.raises(ConfigError, match=reason) as refused:
        behind(*given, *lines)
    told = "".join(traceback.format_exception(refused.value))  # as a WSGI server does
    assert "s3sam3" not in told
