"""noauth2 believes what it is told, as the contract says."""

import json

import pytest


@pytest.fixture
def noauth(client, settings):
    return client(settings(OS_API__AUTH_STRATEGY="noauth2"))


def test_without_a_token_the_answer_is_401_in_its_own_form(noauth):
    refused = noauth.get(Accept="application/json")
    assert (refused.status, refused.headers["content-type"]) == (401, "application/json")
    body = json.loads(refused.body)
    assert set(body) == {"message", "code", "title"}
    assert (body["code"], body["title"]) == ("401 Unauthorized", "Unauthorized")
    assert noauth.reached is None


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("*/*", "application/json"),
        ("", "application/json"),
        ("text/html", "text/html; charset=UTF-8"),
        ("text/plain", "text/plain; charset=UTF-8"),
    ],
)
def test_the_401_has_the_form_the_client_accepts(noauth, accept, media_type):
    assert noauth.get(Accept=accept).headers["content-type"] == media_type


@pytest.mark.parametrize(
    ("token", "user", "project", "roles"),
    [
        ("admin", "admin", "admin", ("admin",)),
        ("admin:p1", "admin", "p1", ("admin",)),
        ("someone", "someone", "someone", ()),
        ("someone:p1:more", "someone", "p1:more", ()),
        ("someone:", "someone", "", ()),
        ("", "", "", ()),
    ],
)
def test_the_token_is_user_and_project(noauth, token, user, project, roles):
    assert noauth.get(X_Auth_Token=token).status == 200
    who = noauth.credentials
    assert (who.user_id, who.project_id, who.roles) == (user, project, roles)


def test_roles_come_from_the_header_if_it_is_there(noauth):
    noauth.get(X_Auth_Token="admin", X_Roles=" reader , member")
    assert noauth.credentials.roles == ("reader", "member")
    noauth.get(X_Auth_Token="somebody", X_Roles="admin")
    assert noauth.credentials.roles == ("admin",)


def test_the_project_id_header_is_trusted_and_the_user_id_header_is_not(noauth):
    noauth.get(X_Auth_Token="u:p", X_Project_Id="other", X_Tenant_Id="old", X_User_Id="root")
    assert (noauth.credentials.user_id, noauth.credentials.project_id) == ("u", "other")


def test_the_tenant_id_comes_from_the_token(noauth):
    noauth.get(X_Auth_Token="u:p", X_Tenant_Id="other")
    assert noauth.credentials.project_id == "p"


def test_a_system_scoped_request_has_no_project(noauth):
    noauth.get(X_Auth_Token="admin", OpenStack_System_Scope="all")
    assert (noauth.credentials.system_scope, noauth.credentials.project_id) == ("all", None)
    noauth.get(X_Auth_Token="admin", OpenStack_System_Scope="")
    assert noauth.credentials.project_id == "admin"


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("", 401), ("/healthcheck", 200), ("/healthcheck/", 401)])
def test_only_the_root_with_its_slash_and_the_healthcheck_are_open(noauth, path, status):
    assert noauth.get(path).status == status
