"""A load that does not fit into memory fails with its size and is repeated after a pause, and the process goes on."""

import re
import subprocess
import sys

LOAD = """
import resource
import time
from dataclasses import replace
from stead.catalog.catalog import Catalog
from stead.domain.changes import NameRow
from stead.domain.errors import Unavailable
from stead_bench.memory import Content

class Growing:
    endless, loads = True, 0

    def changes(self, since):
        self.loads += 1
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
resource.setrlimit(resource.RLIMIT_AS, (in_use + 16 * 2**20, resource.RLIM_INFINITY))
try:
    catalog.fresh()
except Unavailable as error:
    print(error)
source.endless = False
repeated = 0
while True:
    try:
        print(catalog.fresh().size)
        break
    except Unavailable as error:
        repeated += 1
        time.sleep(0.01)
print(repeated > 10, source.loads)

def too_many(since):
    raise MemoryError

source.changes = too_many
try:
    catalog.fresh()
except Unavailable as error:
    print(error)
print(catalog.present()[0].size)
"""


def test_a_load_that_does_not_fit_says_what_is_too_large_and_the_next_one_may_fit() -> None:
    process = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, timeout=50, check=False)
    error, size, loads, of_changes, kept = process.stdout.splitlines()
    assert error.startswith("The providers do not fit into the memory of a worker: ")
    assert "inventories of 403 of 403 resource classes" in error
    assert re.search(r"the most inventories, traits and aggregates are \S+ \(4\d\d\), \S+ \(\d+\), ", error)
    assert size == "100"
    assert loads == "True 2", "calls in the pause after the failure do not load"
    assert of_changes == "What has changed does not fit into the memory of a worker."
    assert kept == "100"
    assert error in process.stderr
