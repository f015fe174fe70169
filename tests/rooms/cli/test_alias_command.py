"""``stead alias``: names for people, in a file, beside the UUIDs of all commands."""

import json

import pytest

CONSUMER = "2f0f2d34-6d6d-4f3c-9d6e-0a1b2c3d4e5f"
PROJECT = "3f0f2d346d6d4f3c9d6e0a1b2c3d4e5f"
HELD = {"host-1": {"generation": 1, "resources": {"VCPU": 2}}}


@pytest.fixture
def one_consumer(server):
    owner = {"project_id": PROJECT, "user_id": "u", "consumer_type": "JOB", "consumer_generation": 3}
    server.can(f"GET /allocations/{CONSUMER}", {"allocations": HELD, **owner})


def test_a_name_is_shown_beside_the_uuid_until_it_is_deleted(server, stead, one_consumer):
    assert stead("alias", "set", CONSUMER, "web-1").out == f"{CONSUMER} is shown as web-1\n"
    assert f"{CONSUMER} web-1\n" in stead("consumer", "show", CONSUMER).out
    assert stead("alias", "list", "-o", "name").out == "web-1\n"
    assert stead("consumer", "show", CONSUMER, "-o", "name").out == f"{CONSUMER}\n"
    assert stead("alias", "delete", CONSUMER).code == 0
    assert "web-1" not in stead("consumer", "show", CONSUMER).out
    ran = stead("alias", "delete", CONSUMER)
    assert (ran.code, ran.out) == (1, "")
    assert stead("alias", "list").out == "no aliases\n"


def test_json_has_the_names_of_the_uuids_in_it(server, stead, one_consumer):
    assert "aliases" not in stead("consumer", "show", CONSUMER, "--json").json
    stead("alias", "set", CONSUMER, "web-1")
    stead("alias", "set", PROJECT, "demo")
    stead("alias", "set", "another", "not there")
    assert stead("consumer", "show", CONSUMER, "--json").json["aliases"] == {CONSUMER: "web-1", PROJECT: "demo"}


def test_watch_has_the_names_in_its_lines_and_its_json(server, stead, one_consumer):
    stead("alias", "set", CONSUMER, "web-1")
    stead("alias", "set", PROJECT, "demo")
    told = {"providers": [], "consumers": [{"uuid": CONSUMER, "generation": 3}], "token": "b"}
    server.can("GET /changes?since=a&timeout=30", told)
    out = stead("watch", "--since", "a", "--once").out
    assert f"consumer {CONSUMER} web-1 (JOB of project {PROJECT} demo): 2 VCPU" in out
    assert stead("watch", "--since", "a", "--once", "--json").json["aliases"] == {CONSUMER: "web-1"}


def test_names_are_imported_from_the_lists_of_openstack(server, stead, one_consumer, tmp_path):
    (tmp_path / "servers").write_text(json.dumps([{"ID": CONSUMER, "Name": "web-1", "Status": "ACTIVE"}]))
    (tmp_path / "projects").write_text(json.dumps([{"ID": PROJECT, "Name": "demo"}]))
    ran = stead("alias", "import", str(tmp_path / "servers"), str(tmp_path / "projects"))
    assert (ran.code, ran.out) == (0, "imported 2 names\n")
    out = stead("consumer", "show", CONSUMER).out
    assert f"{CONSUMER} web-1\n" in out
    assert f"{PROJECT} demo\n" in out


@pytest.mark.parametrize("text", ["", "{}{", "[1]", '[{"ID": "x"}]', '{"a": 1}'])
def test_something_else_is_refused_and_changes_nothing(stead, tmp_path, text):
    stead("alias", "set", CONSUMER, "web-1")
    (tmp_path / "list").write_text(text)
    ran = stead("alias", "import", str(tmp_path / "list"))
    assert (ran.code, ran.out) == (2, "")
    assert "expected a JSON list of objects with an ID and a Name" in ran.err
    assert stead("alias", "list", "--json").json == {"aliases": [{"name": "web-1", "uuid": CONSUMER}]}


def test_a_damaged_file_is_one_line(stead, one_consumer, tmp_path, monkeypatch):
    (tmp_path / "damaged").write_text("[")
    monkeypatch.setenv("STEAD_ALIASES", str(tmp_path / "damaged"))
    ran = stead("consumer", "show", CONSUMER)
    assert ran.code == 2
    assert "cannot be read as aliases; correct or remove it" in ran.err
    assert ran.err.count("\n") == 1
