"""Machines in a few words of hwloc's XML, and what becomes of them."""

from stead.topology.hwloc import Options, read_machine
from stead.topology.site import Site

GPU = "0302 [10de:26b9]"
NIC = "0200 [8086:1592]"
VF = "0200 [8086:1889]"
NVME = "0108 [144d:a80a]"


def topology(inside: str, version: str = "3.0", sets: str = 'cpuset="0xf" nodeset="0x3"', relations: str = "") -> bytes:
    """*relations* are what follows the objects; an empty *version* is hwloc 1."""
    said = f' version="{version}"' if version else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
        f'<topology{said}><object type="Machine" {sets}>{inside}</object>{relations}</topology>'
    ).encode()


def package(inside: str = "", cpus: int = 0xF, nodes: int = 1) -> str:
    threads = "".join(f'<object type="PU" os_index="{n}" cpuset="{1 << n:#x}"/>' for n in range(8) if cpus >> n & 1)
    return f'<object type="Package" cpuset="{cpus:#x}" nodeset="{nodes:#x}">{threads}{inside}</object>'


def numa(index: int = 0, cpus: int = 0xF, memory: object = 1 << 30, extra: str = "") -> str:
    return (
        f'<object type="NUMANode" os_index="{index}" cpuset="{cpus:#x}" nodeset="{1 << index:#x}" '
        f'gp_index="{100 + index}" local_memory="{memory}" {extra}/>'
    )


def bridge(*devices: str) -> str:
    return f'<object type="Bridge" bridge_type="0-1">{"".join(devices)}</object>'


def pci(address: str, kind: str, inside: str = "", model: str = "") -> str:
    return (
        f'<object type="PCIDev" pci_busid="0000:{address}" pci_type="{kind} [0000:0000] 00 00">'
        f'<info name="PCIDevice" value="{model}"/>{inside}</object>'
    )


def os_device(name: str, kind: int = 0, **infos: str) -> str:
    remarks = "".join(f'<info name="{key}" value="{value}"/>' for key, value in infos.items())
    return f'<object type="OSDev" name="{name}" osdev_type="{kind}">{remarks}</object>'


def read(inside: str, options: Options | None = None, **around: str) -> Site:
    return read_machine(topology(inside, **around), "h", options)


def what(site: Site) -> dict[str, dict[str, int]]:
    return {
        name: {key: inventory.total for key, inventory in said.inventories.items()}
        for name, said in site.providers.items()
    }


def where(site: Site) -> dict[str, str | None]:
    return {name: said.parent for name, said in site.providers.items()}


def latencies(*rows: str, attributes: str = 'kind="5" name="NUMALatency"') -> str:
    """A matrix between the nodes from 0 on."""
    indexes = " ".join(map(str, range(len(rows))))
    values = "".join(f"<u64values>{row} </u64values>" for row in rows)
    return (
        f'<distances2 type="NUMANode" nbobjs="{len(rows)}" {attributes} indexing="os">'
        f"<indexes>{indexes}</indexes>{values}</distances2>"
    )


def memory_attribute(name: str, flags: int, *values: tuple[int, str, int]) -> str:
    """Values are a node, the attributes that name its initiator, and what is measured from there."""
    inside = "".join(
        f'<memattr_value target_obj_type="NUMANode" target_obj_gp_index="{100 + node}" {initiator} value="{value}"/>'
        for node, initiator, value in values
    )
    return f'<memattr name="{name}" flags="{flags}">{inside}</memattr>'


def traits(site: Site, name: str) -> set[str]:
    """Without those that name a model."""
    return {trait for trait in site.providers[name].traits if not trait.startswith(("CUSTOM_PCI", "CUSTOM_GPU"))}
