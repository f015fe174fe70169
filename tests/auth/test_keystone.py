"""Keystone's middleware is in its place; what it does is its own tests' business."""

import json
import sys
import threading
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


@pytest.fixture
def keystone(tmp_path, client, settings):
    """The application behind keystonemiddleware, which asks a fake Keystone."""
    pytest.importorskip("webob", reason="needs the extra keystone")
    pytest.importorskip("keystonemiddleware.auth_token", reason="needs the extra keystone")
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeKeystone)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    file = tmp_path / "placement.conf"
    file.write_text(
        f"[keystone_authtoken]\nwww_authenticate_uri = http://keystone.example/\nauth_url = {url}\n"
        "auth_type = password\nusername = placement\npassword = secret\nuser_domain_id = default\n"
        "project_name = service\nproject_domain_id = default\n"
    )
    yield client(settings(file))
    server.shutdown()
    server.server_close()


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


def test_root_and_healthcheck_go_around_keystone(keystone):
    for path in ("/", "", "/healthcheck"):
        assert keystone.get(path, X_Auth_Token="forged", X_User_Id="root").status == 200
        assert keystone.credentials.user_id is None


def test_an_unvalidated_request_that_was_let_through_is_401(tmp_path, client, settings):
    pytest.importorskip("keystonemiddleware.auth_token", reason="needs the extra keystone")
    file = tmp_path / "placement.conf"
    file.write_text("[keystone_authtoken]\ndelay_auth_decision = true\nwww_authenticate_uri = http://k/\n")
    delayed = client(settings(file))
    assert delayed.get().status == 401
    assert delayed.reached is None
