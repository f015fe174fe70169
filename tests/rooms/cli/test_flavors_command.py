"""``stead flavors`` and the option ``--flavor``: on a real server, and against canned answers."""

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from stead.cli.app import run
from stead.cli.flavors import Step, draw_flavors, draw_import
from stead.client.blocking.connecting import connect
from stead.client.headroom import Flavor
from tests.rooms.cli.test_nova import record
from tests.servers.placements import stead_itself

pytestmark = pytest.mark.one_database

SITE = """
providers:
- {name: host-1, inventories: {VCPU: 8, MEMORY_MB: 16384, DISK_GB: 900}}
- name: host-2
  inventories: {VCPU: 64, MEMORY_MB: 65536, DISK_GB: 900}
  children: [{name: gpu, inventories: {VGPU: 2}}]
"""
FLAVORS = [
    record(Name="m1.large"),
    record({"resources1:VGPU": "1", "hw:mem_page_size": "large"}, Name="m1.gpu"),
    record(Name="no name"),
]
LARGE, GPU = (
    "resources=VCPU:4,MEMORY_MB:8192,DISK_GB:80",
    "resources=VCPU:4,MEMORY_MB:8192,DISK_GB:80&resources1=VGPU:1",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    directory = tmp_path_factory.mktemp("flavors")
    with stead_itself(directory) as (url, token):
        (directory / "site.yaml").write_text(SITE)
        assert run(["--url", url, "--token", token, "topology", "apply", str(directory / "site.yaml")]) == 0
        yield url, token


@pytest.fixture
def real(address, tmp_path, monkeypatch, capsys):
    """``real("flavors", …)`` on a server with the site and no flavors, on a terminal of 80 columns."""
    url, token = address
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "flavors.json").write_text(json.dumps(FLAVORS))
    monkeypatch.chdir(tmp_path)
    with connect(url, token) as site:
        for flavor in list(site.flavors()):
            site.delete_flavor(flavor.name)
        site.release_all(project="p")

    def call(*arguments):
        capsys.readouterr()
        code = run(["--url", url, "--token", token, *arguments])
        out, err = capsys.readouterr()
        return code, "\n".join(line.rstrip() for line in out.splitlines()) + "\n" if out else "", err

    return call


LISTED = """\
flavor           fits                    runs out first
m1.gpu              2  ██████            VGPU for group 1
m1.large            5  ████████████████  MEMORY_MB
m1.none             0                    nothing fits
wrong               –                    No such resource class CUSTOM_GONE.
"""


def test_flavors_are_listed_with_a_bar_and_what_runs_out(real, monkeypatch):
    real("flavors", "set", "m1.large", "resources=MEMORY_MB:16384")
    real("flavors", "set", "m1.gpu", GPU)
    real("flavors", "set", "m1.none", "resources=VCPU:65")
    real("flavors", "set", "wrong", "resources=CUSTOM_GONE:1")
    code, out, err = real("flavors")
    assert (code, err) == (0, "")
    assert out == LISTED
    assert real("flavors", "list")[1] == out
    told = json.loads(real("flavors", "--json")[1])["flavors"]
    assert [(flavor["name"], flavor["headroom"].get("at_least")) for flavor in told] == [
        ("m1.gpu", 2),
        ("m1.large", 5),
        ("m1.none", 0),
        ("wrong", None),
    ]


def test_queries_are_listed_without_counting(real):
    assert real("flavors")[1] == "no flavors\n"
    real("flavors", "set", "m1.a", "resources=VCPU:1", "--description", "one CPU")
    real("flavors", "set", "m1.b", "resources=VCPU:2")
    assert real("flavors", "list", "--queries")[1] == (
        "flavor  query             description\nm1.a    resources=VCPU:1  one CPU\nm1.b    resources=VCPU:2\n"
    )
    assert "headroom" not in real("flavors", "list", "--queries", "--json")[1]


def test_a_flavor_is_set_shown_and_deleted(real):
    assert real("flavors", "set", "m1.gpu", GPU, "--description", "a GPU") == (0, "created m1.gpu\n", "")
    assert real("flavors", "show", "m1.gpu")[1] == (
        "m1.gpu  a GPU\n  resources=VCPU:4,MEMORY_MB:8192,DISK_GB:80\n  resources1=VGPU:1\n"
    )
    assert real("flavors", "set", "m1.gpu", f"{GPU}&group_policy=none")[1] == "replaced m1.gpu\n"
    flavor = {"name": "m1.gpu", "query": f"{GPU}&group_policy=none", "description": "a GPU"}
    assert json.loads(real("flavors", "show", "m1.gpu", "--json")[1]) == flavor
    assert real("flavors", "delete", "m1.gpu") == (0, "deleted m1.gpu\n", "")
    assert real("flavors", "delete", "m1.gpu") == (1, "", "stead: No such flavor m1.gpu. (404)\n")


def test_a_flavor_that_does_not_exist_is_answered_with_the_one_that_is_like_it(real):
    real("flavors", "set", "m1.large", LARGE)
    asked = (("flavors", "show", "m1.larg"), ("headroom", "--flavor", "m1.larg"))
    assert [real(*arguments)[::2] for arguments in asked] == [
        (1, "stead: No such flavor m1.larg. (404) Did you mean m1.large?\n"),
        (2, "stead: No such flavor m1.larg. (400) Did you mean m1.large?\n"),
    ]


@pytest.mark.parametrize("query", ["VCPU:1", "resources=VCPU:1&limit=2", "flavor=other"])
def test_a_query_that_cannot_be_stored_is_refused(real, query):
    code, out, err = real("flavors", "set", "m1.wrong", query)
    assert (code, out) == (2, "")
    assert err.startswith("stead: ")
    assert real("flavors", "show", "m1.wrong")[0] == 1


IMPORTED = """\
skipped no name: a name has up to 255 of the characters A-Z a-z 0-9 _ . : + -, a
  letter or a digit first
ignored hw:mem_page_size of m1.gpu
3 flavors described
2 created
1 skipped
"""
REHEARSED = """\
create m1.large: resources=VCPU:4,MEMORY_MB:8192,DISK_GB:80
create m1.gpu: resources=VCPU:4,MEMORY_MB:8192,DISK_GB:80&resources1=VGPU:1
"""


def test_nova_s_flavors_are_imported_once(real):
    code, out, err = real("flavors", "import", "flavors.json", "--dry-run")
    assert (code, err) == (1, "")
    assert out == REHEARSED + IMPORTED + "  (a dry run: nothing was done)\n"
    assert real("flavors")[1] == "no flavors\n"
    assert real("flavors", "import", "flavors.json") == (1, IMPORTED, "")
    assert real("flavors", "import", "flavors.json")[1] == IMPORTED.replace("created", "unchanged")
    assert json.loads(real("flavors", "show", "m1.gpu", "--json")[1])["query"] == GPU


def test_an_import_replaces_queries_and_keeps_descriptions_and_other_flavors(real):
    real("flavors", "set", "m1.large", "resources=VCPU:1", "--description", "large")
    real("flavors", "set", "m1.own", "resources=VCPU:1")
    told = json.loads(real("flavors", "import", "flavors.json", "--json")[1])
    assert [(step["name"], step["action"]) for step in told["flavors"]] == [
        ("m1.large", "replace"),
        ("m1.gpu", "create"),
        ("no name", "skip"),
    ]
    assert json.loads(real("flavors", "show", "m1.large", "--json")[1]) == {
        "name": "m1.large",
        "query": LARGE,
        "description": "large",
    }
    assert real("flavors", "show", "m1.own")[0] == 0


INCOMPLETE = "At most, since nova also requires hw:mem_page_size."


def test_a_flavor_of_which_nova_requires_more_says_so_wherever_it_is_counted(real):
    real("flavors", "import", "flavors.json")
    assert json.loads(real("flavors", "show", "m1.gpu", "--json")[1])["description"] == INCOMPLETE
    assert f"  {INCOMPLETE}\n" in real("flavors")[1]
    assert real("headroom", "--flavor", "m1.gpu")[1].endswith(f"\n\nm1.gpu: {INCOMPLETE}\n")
    assert real("headroom", "--mix", "m1.large:1,m1.gpu:1")[1].endswith(f"\n\nm1.gpu: {INCOMPLETE}\n")


def test_an_import_keeps_what_a_person_wrote_behind_its_own_sentence(real):
    real("flavors", "set", "m1.gpu", "resources=VCPU:1", "--description", "for games")
    for _ in range(2):
        real("flavors", "import", "flavors.json")
        assert json.loads(real("flavors", "show", "m1.gpu", "--json")[1])["description"] == f"{INCOMPLETE} for games"
    complete = json.dumps([record({"resources1:VGPU": "1"}, Name="m1.gpu")])
    Path("complete.json").write_text(complete)
    real("flavors", "import", "complete.json")
    assert json.loads(real("flavors", "show", "m1.gpu", "--json")[1])["description"] == "for games"


def test_a_description_stays_within_its_length(real):
    many = {f"aggregate_instance_extra_specs:{n:040}": "true" for n in range(9)}
    Path("many.json").write_text(json.dumps([record(many)]))
    assert real("flavors", "import", "many.json")[0] == 0
    shown = json.loads(real("flavors", "show", "m1.large", "--json")[1])["description"]
    assert shown == "At most, since nova also requires 9 extra specs."


def test_what_the_server_refuses_is_skipped(server, stead, tmp_path):
    server.can("GET /flavors", {"flavors": [], "links": []})
    server.refuse("PUT /flavors/m1.large", 400, "Too many groups.")
    server.can("PUT /flavors/m1.small", {"name": "m1.small", "query": "", "description": ""}, 201)
    (tmp_path / "flavors.json").write_text(json.dumps([record(), record(Name="m1.small")]))
    ran = stead("flavors", "import", str(tmp_path / "flavors.json"))
    assert (ran.code, ran.err) == (1, "")
    assert ran.out == "skipped m1.large: Too many groups. (400)\n2 flavors described\n1 created\n1 skipped\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff", "not UTF-8"),
        (b"no", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"{}", "not a list"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":' * 100_000, "nested too deep"),
    ],
)
def test_a_file_that_cannot_be_read_changes_nothing(stead, tmp_path, content, reason):
    file = tmp_path / "flavors.json"
    file.write_bytes(content)
    ran = stead("flavors", "import", str(file))
    assert (ran.code, ran.out) == (2, "")
    assert f"stead: {file}: {reason}" in ran.err
    assert "No such file" in stead("flavors", "import", str(tmp_path / "other.json")).err


NOTHING_FITS = "stead: nothing fits; `stead explain` with the same query says why\n"


def test_a_flavor_stands_for_its_query_in_each_command(real):
    real("flavors", "set", "m1.gpu", GPU)
    assert real("headroom", "--flavor", "m1.gpu")[1].startswith("Fits 2 times in 1 tree.\n")
    assert real("headroom", "in_tree=name:host-1", "--flavor", "m1.gpu")[::2] == (1, NOTHING_FITS)
    candidates = json.loads(real("candidates", "--flavor", "m1.gpu", "--json")[1])["candidates"]
    parts = {(provider["name"], provider["group"], *provider["resources"]) for provider in candidates[0]["providers"]}
    of_host = {("host-2", "", name) for name in ("DISK_GB", "MEMORY_MB", "VCPU")}
    assert parts == {("gpu", "1", "VGPU"), *of_host}
    assert json.loads(real("explain", "--flavor", "m1.gpu", "--json")[1])["candidates"] == 1
    claimed = json.loads(real("claim", "--flavor", "m1.gpu", "--project", "p", "--user", "u", "--json")[1])
    assert {(provider["name"], provider["group"], *provider["resources"]) for provider in claimed["providers"]} == parts


def test_a_consumer_that_is_resized_by_a_flavor_stays_in_its_tree(real):
    real("flavors", "set", "small", "resources_A=VCPU:1")
    real("flavors", "set", "big", "resources_A=VCPU:2&resources_B=MEMORY_MB:1&group_policy=none")
    owner = ["--consumer-name", "vm", "--project", "p", "--user", "u", "--replace", "--json"]
    for host in ("host-1", "host-2"):
        assert real("claim", f"resources=VCPU:1&in_tree=name:{host}", *owner)[0] == 0
        for flavor in ("small", "big") * 3:
            (name,) = {
                provider["name"] for provider in json.loads(real("claim", "--flavor", flavor, *owner)[1])["providers"]
            }
            assert name == host


@pytest.mark.parametrize("command", ["candidates", "explain"])
def test_a_request_needs_a_query_or_a_flavor(stead, command):
    ran = stead(command)
    assert (ran.code, ran.out, ran.err) == (2, "", "stead: give a QUERY, --flavor, or both\n")


def test_the_amounts_of_a_flavor_that_may_not_be_read_are_left_out(server, stead):
    provider = {"root_provider_uuid": "u", "parent_provider_uuid": None, "resources": {}, "traits": []}
    request = {"allocations": {"u": {"resources": {"VCPU": 1}}}, "mappings": {"": ["u"]}}
    answer = {"allocation_requests": [request], "provider_summaries": {"u": provider}}
    server.can("GET /allocation_candidates?flavor=a&limit=20", answer)
    server.refuse("GET /flavors/a", 403, "no")
    (candidate,) = stead("candidates", "--flavor", "a", "--json").json["candidates"]
    assert candidate["providers"][0]["resources"]["VCPU"]["amount"] == 1


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["list"], "GET /flavors"),
        (["show", "a"], "GET /flavors/a"),
        (["set", "a", "resources=VCPU:1"], "GET /flavors/a"),
        (["delete", "a"], "DELETE /flavors/a"),
    ],
)
def test_a_server_without_flavors_is_told(server, stead, arguments, missing):
    for call in ("GET /flavors?headroom=true", "GET /flavors/a", "PUT /flavors/a", "DELETE /flavors/a"):
        server.refuse(call, 404, "The resource could not be found.")
    ran = stead("flavors", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"stead: the server has no {missing}; this command requires Stead with `stead 1.1`\n"


def test_all_pages_are_read(server, stead):
    def page(name, links):
        return {"flavors": [{"name": name, "query": "resources=VCPU:1", "description": ""}], "links": links}

    server.can("GET /flavors", page("a+b", [{"rel": "next", "href": "/prefix/flavors?marker=a%2Bb"}]))
    server.can("GET /flavors?marker=a+b", page("c", []))
    assert [flavor["name"] for flavor in stead("flavors", "list", "--queries", "--json").json["flavors"]] == [
        "a+b",
        "c",
    ]


def flavor(name, number, *limits):
    headroom = {"at_least": number, "at_most": number + 1, "limited_by": list(limits), "complete": True}
    return {"name": name, "query": "", "description": "", "headroom": headroom}


def test_no_line_is_longer_than_the_terminal():
    limit = {"suffix": "_" + "g" * 63, "resource_class": "CUSTOM_" + "X" * 200, "trees": 3}
    wrong = {**flavor("wrong", 0), "headroom": {"error": "No such resource class. " * 9}}
    flavors = [flavor("m1." + "n" * 200, 10**9, limit), flavor("m1.a", 4, limit, limit), wrong]
    steps = [Step("n" * 200, "skip", reason="r" * 300), Step("a", "create", "q" * 300, ignored=("k" * 200,))]
    for width in (40, 80, 120, 200):
        listed = [Flavor.of(each) for each in flavors]
        for lines in (draw_flavors(listed, width), draw_import(steps, width, dry_run=True)):
            assert max(cell_len(line.plain) for line in lines) <= width


def test_weights_are_stored_and_make_the_mix(real):
    assert real("mix")[:2] == (0, "no mix: no flavors, and few requests until now\n")
    real("flavors", "set", "m1.large", "resources=MEMORY_MB:16384", "--weight", "3")
    real("flavors", "set", "m1.gpu", GPU, "--weight", "1")
    real("flavors", "set", "m1.large", "resources=MEMORY_MB:8192")  # the weight stays
    code, out, err = real("mix")
    assert (code, err) == (0, "")
    assert out == "the weights of flavors\nshare  form\n75.0%  m1.large\n25.0%  m1.gpu\n"
    told = json.loads(real("mix", "--forget", "--json")[1])
    assert told["source"] == "weights"
    assert [(form["flavor"], form["share"]) for form in told["forms"]] == [("m1.large", 0.75), ("m1.gpu", 0.25)]
    code, _, err = real("flavors", "set", "m1.gpu", GPU, "--weight", "-1")
    assert code == 2
    assert "--weight" in err


def test_the_number_of_instances_of_an_import_is_the_weight(real, tmp_path):
    (tmp_path / "flavors.json").write_text(json.dumps([{**record(Name="a"), "Instances": 9}, record(Name="b")]))
    assert real("flavors", "import", "flavors.json")[0] == 0
    assert "100.0%  a" in real("mix")[1]
    assert "2 unchanged" in real("flavors", "import", "flavors.json", "--dry-run")[1]
    (tmp_path / "flavors.json").write_text(json.dumps([{**record(Name="a"), "Instances": 8}, record(Name="b")]))
    steps = json.loads(real("flavors", "import", "flavors.json", "--json")[1])["flavors"]
    assert [(step["name"], step["action"], step["weight"]) for step in steps] == [
        ("a", "replace", 8),
        ("b", "keep", None),
    ]
    (tmp_path / "flavors.json").write_text(json.dumps([{**record(Name="a"), "Instances": -8}]))
    code, out, _ = real("flavors", "import", "flavors.json")
    assert code == 1
    assert "Instances is not a number of at least 0" in out
