"""A load that does not fit into memory fails with its size, and the process goes on."""

import re
import subprocess
import sys

LOAD = """
import resource
from dataclasses import replace
from stead.catalog.catalog import Catalog
from stead.domain.changes import NameRow
from stead.domain.errors import Unavailable
from stead_bench.memory import Content

class Growing:
    endless = True

    def changes(self, since):
        small = Content(100)
        names, classes = small.names(), range(1_000, 1_400)
        more = [NameRow(id_, f"CUSTOM_MORE_{id_}", 0) for id_ in classes]
        yield replace(names, resource_classes=[*names.resource_classes, *more])
        yield small.portion(range(1, 101))
        if not self.endless:
            return
        rich = small.portion(range(101, 102))
        columns = [[101] * 400, classes, *([8] * 400 for _ in range(5)), [1.0] * 400, [0] * 400]
        yield replace(rich, inventories=type(rich.inventories)(*columns))
        first = 102
        while True:
            yield small.portion(range(first, first + 5_000))
            first += 5_000

source = Growing()
catalog = Catalog(source)
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + 40 * 2**20, resource.RLIM_INFINITY))
try:
    catalog.fresh()
except Unavailable as error:
    print(error)
source.endless = False
print(catalog.fresh().size)
"""


def test_a_load_that_does_not_fit_says_what_is_too_large_and_the_next_one_may_fit() -> None:
    process = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, timeout=50, check=False)
    error, size = process.stdout.splitlines()
    assert error.startswith("The providers do not fit into the memory of a worker: ")
    assert "inventories of 403 of 403 resource classes" in error
    assert re.search(r"the most inventories, traits and aggregates are \S+ \(4\d\d\), \S+ \(\d+\), ", error)
    assert size == "100"
    assert "the providers do not fit into the memory of this process" in process.stderr
