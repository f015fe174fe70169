"""Additions to the help texts and the reference of commands: an example, and the shape of ``--json``."""

# ruff: noqa: E501  # a shape is easier to compare on one line

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Documented:
    """*example*: a command line that works. *shape*: the JSON that ``--json`` prints; empty if it prints none.

    In a shape, ``?`` after a name means that it may be missing, ``…`` that more of the same follows.
    """

    example: str
    shape: str = ""


_AMOUNTS = '{"VCPU": {"capacity": 64, "used": 12, "reserved": 0}, …}'
_CANDIDATE = (
    '"providers": [{"uuid", "name", "root_uuid", "root_name", "group", "resources": '
    '{"VCPU": {"amount", "capacity", "used_before", "free_after"}}}, …], "allocation_request": {…}'
)
_SITE = '{"providers": [{"name", "uuid", "inventories", "traits", "aggregates", "children": […]}, …]}'

_CONSUMER = (
    '{"uuid", "project", "user", "type", "generation", "created_at": "2026-11-22T18:10:44+00:00" or null, '
    '"resources": {"VCPU": 2}, "allocations": [{"provider", "name", "root_name", "resources": {"VCPU": 2}}, …]}'
)
_CONSUMERS = f'{{"consumers": [{_CONSUMER}, …], "totals": {{"VCPU": 2}}}}'
_FLAVOR = '{"name", "query", "description"}'
_PLAN = "the response of PUT /provider_trees, with the `differences` of its dry run"

DOCUMENTED = {
    "serve": Documented("stead serve --port 8778 --workers 2", '{"url", "data_dir", "admin_token_file", …}'),
    "tree": Documented(
        "stead tree --filter 'compute-1*' --sort used",
        '{"roots": [{"uuid", "name", "generation", "inventories": {"VCPU": {"total", "reserved", "min_unit", "max_unit", '
        '"step_size", "allocation_ratio", "capacity", "used"}}, "traits", "aggregates", "children": […], "gone"?: true, '
        f'"hidden"?: 3, "sums"?: {_AMOUNTS}}}, …]}}\n\n'
        'with --summary:\n\n{"trees": 1000, "groups": [{"trees", "providers_per_tree", "disabled", "names", '
        f'"sums": {_AMOUNTS}}}, …], "totals": {_AMOUNTS}}}',
    ),
    "candidates": Documented(
        "stead candidates 'resources=VCPU:2,MEMORY_MB:4096' --limit 5", f'{{"candidates": [{{{_CANDIDATE}}}, …]}}'
    ),
    "explain": Documented(
        "stead explain 'resources=VCPU:2&required=HW_CPU_X86_AVX2'",
        "the response of GET /allocation_candidates/explain",
    ),
    "headroom": Documented(
        "stead headroom 'resources=VCPU:2&required=HW_CPU_X86_AVX2' --top 20",
        "the `headroom` of the response of GET /headroom",
    ),
    "flavors list": Documented(
        "stead flavors list",
        '{"flavors": [{"name", "query", "description", "headroom"?: {"at_least", "at_most", "exact", "complete", '
        '"limited_by"} or {"error"}}, …]}',
    ),
    "flavors show": Documented("stead flavors show m1.large", _FLAVOR),
    "flavors set": Documented("stead flavors set m1.large 'resources=VCPU:4,MEMORY_MB:8192,DISK_GB:80'", _FLAVOR),
    "flavors delete": Documented("stead flavors delete m1.large", '{"deleted"}'),
    "flavors import": Documented(
        "stead flavors import flavors.json --dry-run",
        '{"dry_run", "flavors": [{"name", "action": "create", "replace", "keep" or "skip", "query", "reason", "ignored": '
        '["hw:mem_page_size", …]}, …]}',
    ),
    "whatif": Documented(
        "stead whatif --drain compute-0017 --ratio VCPU=8 -- headroom 'resources=VCPU:2,MEMORY_MB:4096'",
        "the response of POST /whatif",
    ),
    "plan drain": Documented(
        "stead plan drain compute-0017 --execute",
        'the response of POST /whatif; with --execute also "made": 3, "stopped": {"move", "consumer", "reason"} or null, '
        '"disabled": ["<uuid>", …]',
    ),
    "plan room": Documented(
        "stead plan room 'resources=VCPU:24,MEMORY_MB:65536' --times 2",
        'the `advice` of the response of GET /advice; with --execute also "made": 3, '
        '"stopped": {"move", "consumer", "reason"} or null',
    ),
    "claim": Documented(
        "stead claim 'resources=VCPU:2' --project demo --user me --consumer-name train-1 --wait 60",
        f'{{"consumer_name"?, "consumer", "tries", "replaced": {{…}}, {_CANDIDATE}}}\n\nwith --count: {{"claims": [{{…}}, …]}}',
    ),
    "consumers": Documented("stead consumers --project demo --older-than 7d", _CONSUMERS),
    "consumer show": Documented("stead consumer show train-1", _CONSUMER),
    "usage": Documented(
        "stead usage --by type",
        '{"usages": [{"project" (or "user", "type"), "consumers", "resources": {"VCPU": 2}}, …], "totals": {"VCPU": 2}}',
    ),
    "who": Documented("stead who compute-0017", _CONSUMERS),
    "watch": Documented(
        "stead watch", 'one line for each response of GET /changes: {"token", "providers", "consumers"}'
    ),
    "top": Documented(
        "stead top --filter 'compute-1*'",
        f'one view: {{"claims_per_second": 12.5 or null, "totals": {_AMOUNTS}, "hosts": [{{"uuid", "name", "providers", "sums": {_AMOUNTS}}}, …]}}',
    ),
    "release": Documented(
        "stead release 11111111-1111-4111-8111-111111111111",
        '{"consumer", "released": {"<provider>": {"resources"}}, "dry_run"?: true}\n\nwith options: '
        f'{{"dry_run", "released": [{_CONSUMER}, …], "failed": [{{"uuid", "reason"}}, …]}}',
    ),
    "provider show": Documented(
        "stead provider show compute-0017",
        'as a root of `stead tree`, and "path": ["<name of the root>", …], "consumers": {"<uuid>": {"resources": {"VCPU": 2}}}',
    ),
    "provider set": Documented(
        "stead provider set compute-0017 --inventory VCPU:reserved=2 --trait CUSTOM_RACK_A --dry-run", _PLAN
    ),
    "provider create": Documented(
        "stead provider create pool --inventory DISK_GB=4000 --trait MISC_SHARES_VIA_AGGREGATE", _PLAN
    ),
    "provider move": Documented("stead provider move compute-0017_gpu0 --below compute-0018", _PLAN),
    "provider delete": Documented(
        "stead provider delete compute-0017 --recursive --dry-run", '{"dry_run", "deleted": [{"uuid", "name"}, …]}'
    ),
    "provider disable": Documented(
        "stead provider disable compute-0017 --reason 'new memory'",
        '{"dry_run", "uuid", "name", "disabled": {"reason", "until"}}',
    ),
    "provider enable": Documented(
        "stead provider enable compute-0017", '{"dry_run", "uuid", "name", "disabled": null}'
    ),
    "topology apply": Documented(
        "stead topology apply site.yaml --dry-run",
        '{"dry_run", "described", "steps": [{"action", "name", "text", "inventories"?}, …], "overcommitted", "kept"}',
    ),
    "topology dump": Documented("stead topology dump > site.yaml", _SITE),
    "topology hwloc": Documented("stead topology hwloc machine.xml --name 'node{n:02}' --count 16", _SITE),
    "completion": Documented("stead completion bash", '{"script"}, or with --line {"candidates": ["<word>", …]}'),
    "audit": Documented(
        "stead audit",
        '{"clean", "faults": {"<fault>": {"meaning", "help", "count"}}, "findings": [{"fault", "subject", "detail", '
        "…}, …], …}",
    ),
    "config show": Documented(
        "stead config show --config-file placement.conf",
        '{"options": [{"group", "option", "value", "from"}, …], "ignored": […], "problems": […]}',
    ),
    "config sample": Documented("stead config sample > placement.conf"),
    "token create": Documented(
        "stead token create nova --role service --expires 90d",
        '{"name", "token", "user", "project", "roles", "expires"}',
    ),
    "token list": Documented(
        "stead token list", '{"tokens": [{"name", "user", "project", "roles", "expires", "expired"}, …]}'
    ),
    "token revoke": Documented("stead token revoke nova", '{"revoked"}'),
    "db upgrade": Documented("stead db upgrade", '{"upgraded": ["<revision>", …]}'),
    "db downgrade": Documented("stead db downgrade --to upstream", '{"downgraded_to", "removed": […]}'),
    "db version": Documented("stead db version", '{"<history>": "<revision>"}'),
    "db check": Documented("stead db check", '{"ready", "revisions", "pending", "objections", "warnings"}'),
    "db new-epoch": Documented("stead db new-epoch", '{"epoch"}'),
}
"""By the words of the command."""


def add_examples(command: Any, words: str) -> None:
    """Append an example to the help of *command*, which is called by *words*, and of all its subcommands."""
    for name, below in getattr(command, "commands", {}).items():
        add_examples(below, f"{words} {name}")
    if words in DOCUMENTED:
        command.epilog = f"Example: {DOCUMENTED[words].example}"
