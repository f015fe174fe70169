"""A site as a table: what each column means, and what is refused, with its line."""

import csv
from io import StringIO

import pytest
from hypothesis import given

from stead.topology.document import dump
from stead.topology.site import Site, SiteError
from stead.topology.table import load_table
from tests.rooms.topology.sites import sites

BOARDS = """\
name,parent,traits,CUSTOM_BOARD,VCPU

rack-1,,,,
board-1,rack-1,CUSTOM_ARM  CUSTOM_UART,1,0
"the ""second"" board",rack-1,CUSTOM_ARM,1,4
"""

AS_A_FILE = """\
---
providers:
- name: rack-1
  children:
  - name: board-1
    inventories:
      CUSTOM_BOARD: 1
    traits:
    - CUSTOM_ARM
    - CUSTOM_UART
  - name: the "second" board
    inventories:
      CUSTOM_BOARD: 1
      VCPU: 4
    traits:
    - CUSTOM_ARM
"""


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_table_of_any_spreadsheet_is_a_site(separator: str, line_end: str) -> None:
    table = BOARDS.replace(",", separator).replace("\n", line_end)
    assert dump(load_table(table)) == AS_A_FILE


def as_table(site: Site) -> str:
    """The totals of *site*."""
    classes = sorted({name for described in site.providers.values() for name in described.inventories})
    written = StringIO()
    writer = csv.writer(written)
    writer.writerow(["parent", "name", "uuid", *classes, "aggregates", "traits"])
    for one in site.providers.values():
        totals = [one.inventories[name].total if name in one.inventories else "" for name in classes]
        lists = " ".join(sorted(one.aggregates)), " ".join(sorted(one.traits))
        writer.writerow([one.parent or "", one.name, one.uuid or "", *totals, *lists])
    return written.getvalue()


@given(sites())
def test_a_table_says_of_a_site_all_but_the_fields_of_inventories_beside_the_total(site: Site) -> None:
    if any(
        name != name.strip()
        for described in site.providers.values()
        for name in (described.name, described.parent or "")
    ):
        return
    read = load_table(as_table(site)).providers if site.providers else {}
    assert read.keys() == site.providers.keys()
    for name, described in site.providers.items():
        told = read[name]
        assert (told.parent, told.uuid, told.traits) == (described.parent, described.uuid, described.traits)
        assert told.aggregates == described.aggregates
        assert {key: one.total for key, one in told.inventories.items()} == {
            key: one.total for key, one in described.inventories.items()
        }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "t.csv:1: no heading `name`: the first line has the names of the columns"),
        ("\n\nboard,VCPU\n", "t.csv:3: no heading `name`: the first line has the names of the columns"),
        ("name,VCPU\n\n", "t.csv: no row below the headings"),
        ("name,VCPU,VCPU\n", "t.csv:1: two columns have the heading 'VCPU'"),
        (
            "name,vcpu\n",
            "t.csv:1: the heading 'vcpu' is neither a resource class nor one of name, parent, uuid, traits, aggregates",
        ),
        (
            "name,\n",
            "t.csv:1: the heading '' is neither a resource class nor one of name, parent, uuid, traits, aggregates",
        ),
        ("name,VCPU\n\nx,1,2\n", "t.csv:3: 3 cells below 2 headings"),
        ('name,VCPU\n"x\ny",1\nz,1.5\n', "t.csv:4: provider 'z': inventories: VCPU must be a whole number, not '1.5'"),
        ("name,VCPU\nx,-1\n", "t.csv:2: provider 'x': inventories: VCPU must be a whole number, not '-1'"),
        (
            "name,VCPU\nx,2147483648\n",
            "t.csv:2: provider 'x': inventories: VCPU must be 1 to 2147483647, not 2147483648",
        ),
        ("name,VCPU\nx,\u0661\n", "t.csv:2: provider 'x': inventories: VCPU must be a whole number, not '\u0661'"),
        ("name,VCPU\n,1\n", "t.csv:2: a provider has no name"),
        ("name,uuid\nx,1\n", "t.csv:2: provider 'x': uuid: '1' is not a uuid"),
        (
            "name,traits\nx,blue\n",
            "t.csv:2: provider 'x': traits: 'blue' is not a name of A-Z, 0-9 and _ (at most 255)",
        ),
        ("name,VCPU\nx,1\nx,2\n", "t.csv:3: provider 'x' is described twice; first in line 2"),
        ('name,VCPU\nx,"1\n', "t.csv:2: not a table: unexpected end of data"),
        ("name,parent\nx,y\ny,x\n", "t.csv: "),
    ],
)
def test_what_is_no_table_is_refused_with_the_line(text: str, complaint: str) -> None:
    with pytest.raises(SiteError) as refused:
        load_table(text, "t.csv")
    assert str(refused.value).startswith(complaint)
