"""``stead headroom`` draws how many times a request fits."""

from tests.system.api.client import NEWEST

QUERY = "resources_N=PCPU:6&resources_G=VGPU:1&same_subtree=_N,_G"
CALL = f"GET /headroom?{QUERY}&limit=10000"


def tree(name, at_least, at_most=None):
    return {"root": "u", "name": name, "at_least": at_least, "at_most": at_most or at_least}


def headroom(**more):
    return {
        "headroom": {
            "at_least": 41,
            "at_most": 41,
            "exact": True,
            "tree_count": 3,
            "trees": [tree("host-1", 6), tree("host-\x1b[2J", 30), tree("host-3", 5)],
            "limited_by": [
                {"suffix": "_G", "resource_class": "VGPU", "trees": 2},
                {"parameter": "same_subtree", "value": "_G,_N", "trees": 1},
            ],
            "stranded": {"PCPU": 1200, "VGPU": 0},
            "generation": "token",
            **more,
        },
        "links": [],
    }


PICTURE = """\
Fits 41 times in 3 trees.

  host-\\x1b[2J   30  ████████████
  host-1          6  ██
  and 1 more tree

Runs out first
  2 trees: VGPU for group _G
  1 tree: same_subtree=_G,_N

Left over when full
  1,200 PCPU
"""


def test_the_trees_with_most_headroom_are_drawn(server, stead):
    server.can(CALL, headroom())
    ran = stead("headroom", QUERY, "--top", "2")
    assert (ran.code, ran.err) == (0, "")
    assert "\n".join(line.rstrip() for line in ran.out.splitlines()) + "\n" == PICTURE
    assert server.asked[0].headers["openstack-api-version"] == f"placement {NEWEST}, stead 1.1"


def test_with_an_order_the_trees_keep_theirs(server, stead):
    server.can(f"GET /headroom?{QUERY}&order_by=pack&limit=10000", headroom())
    out = stead("headroom", f"{QUERY}&order_by=pack", "--top", "1").out
    assert "host-1" in out
    assert "30" not in out


def test_two_bounds_are_told_as_two(server, stead):
    server.can(CALL, headroom(at_most=45, exact=False, trees=[tree("host-1", 6, 8)]))
    out = stead("headroom", QUERY).out
    assert out.startswith("Fits between 41 and 45 times in 3 trees.\n")
    assert "6 to 8" in out


def test_where_nothing_fits_it_points_to_explain(server, stead):
    server.can(CALL, headroom(at_least=0, at_most=0, tree_count=0, trees=[], limited_by=[]))
    ran = stead("headroom", QUERY)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "stead: nothing fits; `stead explain` with the same query says why\n"


def test_in_json_it_is_what_the_service_says(server, stead):
    server.can(CALL, headroom())
    assert stead("headroom", QUERY, "--json").json == headroom()["headroom"]


def test_a_server_without_headroom_is_told(server, stead):
    server.refuse(CALL, 404, "The resource could not be found.")
    ran = stead("headroom", QUERY)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "stead: the server has no GET /headroom; this command requires Stead with `stead 1.1`\n"


MIX_PICTURE = """\
3 m1.small and 1 m1.large fit between 10 and 12 times together.

Each flavor alone
  m1.small             70  ████████████
  m1.large       15 to 16  ███

Runs out first
  room for m1.large
  VCPU

Left over when full
  12 VCPU
"""


def test_a_mix_of_flavors_is_drawn(server, stead):
    parts = [("m1.small", 3, 70, 70), ("m1.large", 1, 15, 16)]
    mix = [
        {"flavor": flavor, "weight": weight, "at_least": least, "at_most": most, "limited_by": []}
        for flavor, weight, least, most in parts
    ]
    headroom = {"at_least": 10, "at_most": 12, "exact": False, "mix": mix, "stranded": {"VCPU": 12, "DISK_GB": 0}}
    headroom["limited_by"] = [{"flavor": "m1.large"}, {"resource_class": "VCPU"}]
    server.can("GET /headroom?root_required=CUSTOM_A&mix=m1.small:3,m1.large:1", {"headroom": headroom, "links": []})
    ran = stead("headroom", "root_required=CUSTOM_A", "--mix", "m1.small:3,m1.large:1")
    assert (ran.code, ran.err) == (0, "")
    assert "\n".join(line.rstrip() for line in ran.out.splitlines()) + "\n" == MIX_PICTURE


def test_a_mix_and_a_flavor_are_not_both_accepted(stead):
    ran = stead("headroom", "--flavor", "a", "--mix", "a:1")
    assert ran.code
    assert "not both" in ran.err


STRANDED = """\
class   free  stranded   of it
VCPU   1,200        30   2.5 %
VGPU       8         6  75.0 %
2 of 3 flavors were counted; the server reached a limit.
"""


def test_without_a_request_it_shows_what_the_flavors_cannot_use(server, stead):
    amounts = {"free": {"VGPU": 8, "VCPU": 1200}, "stranded": {"VGPU": 6, "VCPU": 30}}
    server.can("GET /headroom", {"headroom": {"forms": 3, "counted": 2, **amounts, "generation": "t"}, "links": []})
    ran = stead("headroom")
    assert (ran.code, ran.out, ran.err) == (0, STRANDED, "")
    assert server.asked[0].headers["openstack-api-version"] == f"placement {NEWEST}, stead 1.2"
