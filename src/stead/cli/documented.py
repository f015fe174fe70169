"""Additions to the help and the reference of commands: two examples, and the shape of ``--json``."""

# ruff: noqa: E501  # a shape is easier to compare on one line

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Documented:
    """*examples*: command lines that work. *shape*: the JSON that ``--json`` prints; empty if it prints none.

    In a shape, ``?`` after a name means that it may be missing, ``…`` that more of the same follows.
    """

    examples: tuple[str, str]
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
    "serve": Documented(
        ("stead serve --port 8778 --workers 2", "stead serve --config-file /etc/placement/placement.conf --workers 4"),
        '{"url", "data_dir", "admin_token_file", …}',
    ),
    "tree": Documented(
        ("stead tree --filter 'compute-1*' --sort used", "stead tree compute-0017 --traits"),
        '{"roots": [{"uuid", "name", "generation", "inventories": {"VCPU": {"total", "reserved", "min_unit", "max_unit", '
        '"step_size", "allocation_ratio", "capacity", "used"}}, "traits", "aggregates", "children": […], "gone"?: true, '
        f'"hidden"?: 3, "sums"?: {_AMOUNTS}}}, …]}}\n\n'
        'with --summary:\n\n{"trees": 1000, "groups": [{"trees", "providers_per_tree", "disabled", "names", '
        f'"sums": {_AMOUNTS}}}, …], "totals": {_AMOUNTS}}}',
    ),
    "candidates": Documented(
        ("stead candidates 'resources=VCPU:2,MEMORY_MB:4096' --limit 5", "stead candidates --flavor m1.large"),
        f'{{"candidates": [{{{_CANDIDATE}}}, …]}}',
    ),
    "explain": Documented(
        (
            "stead explain 'resources=VCPU:2&required=HW_CPU_X86_AVX2'",
            "stead explain --instance 11111111-1111-4111-8111-111111111111 --log stead.log",
        ),
        "the response of GET /allocation_candidates/explain",
    ),
    "headroom": Documented(
        ("stead headroom 'resources=VCPU:2&required=HW_CPU_X86_AVX2' --top 20", "stead headroom --flavor m1.large"),
        "the `headroom` of the response of GET /headroom",
    ),
    "flavor list": Documented(
        ("stead flavor list", "stead flavor list --queries"),
        '{"flavors": [{"name", "query", "description", "headroom"?: {"at_least", "at_most", "exact", "complete", '
        '"limited_by"} or {"error"}}, …]}',
    ),
    "flavor show": Documented(("stead flavor show m1.large", "stead flavor show m1.large -o json"), _FLAVOR),
    "flavor set": Documented(
        (
            "stead flavor set m1.large 'resources=VCPU:4,MEMORY_MB:8192,DISK_GB:80'",
            "stead flavor set m1.large 'resources=VCPU:4,MEMORY_MB:8192' --weight 2",
        ),
        _FLAVOR,
    ),
    "flavor delete": Documented(
        ("stead flavor delete m1.large", "stead flavor delete m1.large --quiet"), '{"deleted"}'
    ),
    "flavor import": Documented(
        ("stead flavor import flavors.json --dry-run", "openstack flavor list -f json --long | stead flavor import -"),
        '{"dry_run", "flavors": [{"name", "action": "create", "replace", "keep" or "skip", "query", "reason", "ignored": '
        '["hw:mem_page_size", …], "description", "weight"}, …]}',
    ),
    "mix": Documented(("stead mix", "stead mix --forget"), "the `mix` of the response of GET /mix"),
    "whatif": Documented(
        (
            "stead whatif --drain compute-0017 --ratio VCPU=8 -- headroom 'resources=VCPU:2'",
            "stead whatif --copy compute-0017=4 -- headroom 'resources=VCPU:2'",
        ),
        "the response of POST /whatif",
    ),
    "plan drain": Documented(
        ("stead plan drain compute-0017 --execute", "stead plan drain compute-0017 compute-0018"),
        'the response of POST /whatif; with --execute also "made": 3, "stopped": {"move", "consumer", "reason"} or null, '
        '"disabled": ["<uuid>", …]',
    ),
    "plan room": Documented(
        ("stead plan room 'resources=VCPU:24,MEMORY_MB:65536' --times 2", "stead plan room --flavor m1.large"),
        'the `advice` of the response of GET /advice; with --execute also "made": 3, '
        '"stopped": {"move", "consumer", "reason"} or null',
    ),
    "plan improve": Documented(
        ("stead plan improve --moves 20", "stead plan improve --execute"),
        'the `advice` of the response of GET /advice?improve=mix; with --execute also "made": 3, '
        '"stopped": {"move", "consumer", "reason"} or null',
    ),
    "claim": Documented(
        (
            "stead claim 'resources=VCPU:2' --project demo --user me --wait 60",
            "stead claim --flavor m1.large --project demo --user me --count 3",
        ),
        f'{{"consumer_name"?, "consumer", "tries", "replaced": {{…}}, {_CANDIDATE}}}\n\nwith --count: {{"claims": [{{…}}, …]}}',
    ),
    "consumer list": Documented(
        (
            "stead consumer list --project demo --older-than 7d",
            "openstack server list --all-projects -f json | stead consumer list --not-in -",
        ),
        _CONSUMERS,
    ),
    "consumer show": Documented(
        ("stead consumer show train-1", "stead consumer show 11111111-1111-4111-8111-111111111111"), _CONSUMER
    ),
    "usage": Documented(
        ("stead usage --by type", "stead usage --project demo"),
        '{"usages": [{"project" (or "user", "type"), "consumers", "resources": {"VCPU": 2}}, …], "totals": {"VCPU": 2}}',
    ),
    "who": Documented(("stead who compute-0017", "stead who compute-0017 -o name"), _CONSUMERS),
    "watch": Documented(
        ("stead watch", "stead watch --json"),
        'one line for each response of GET /changes: {"token", "providers", "consumers"}',
    ),
    "top": Documented(
        ("stead top --filter 'compute-1*'", "stead top --once --class VCPU"),
        f'one view: {{"claims_per_second": 12.5 or null, "totals": {_AMOUNTS}, "hosts": [{{"uuid", "name", "providers", "sums": {_AMOUNTS}}}, …]}}',
    ),
    "run": Documented(
        (
            "stead run -r PGPU:1 -- python train.py",
            "stead run -r PGPU:2 --wait 10m --name train -- torchrun train.py",
        ),
        "nothing of its own: the output is that of the command",
    ),
    "ps": Documented(
        ("stead ps", "stead ps --json"),
        '{"runs": [{"name", "consumer", "user", "host", "since", "until", '
        '"allocations": {"<uuid>": {"name", "resources"}}}, …]}',
    ),
    "kill": Documented(("stead kill train", "stead kill train eval"), '{"released": [{…}, …]}, as of `stead ps`'),
    "release": Documented(
        ("stead release 11111111-1111-4111-8111-111111111111", "stead release --project demo --dry-run"),
        '{"consumer", "released": {"<provider>": {"resources"}}, "dry_run"?: true}\n\nwith options: '
        f'{{"dry_run", "released": [{_CONSUMER}, …], "failed": [{{"uuid", "reason"}}, …]}}',
    ),
    "provider list": Documented(
        ("stead provider list", "stead provider list 'compute-00*' --disabled -o name"),
        '{"providers": [{"name", "uuid", "parent", "root", "generation", "disabled": false, '
        '"VCPU"?: {"capacity": 64, "used": 12, "reserved": 0}, …, "traits", "aggregates"}, …]}',
    ),
    "provider show": Documented(
        ("stead provider show compute-0017", "stead provider show compute-0017 -o yaml"),
        'as a root of `stead tree`, and "path": ["<name of the root>", …], "consumers": {"<uuid>": {"resources": {"VCPU": 2}}}',
    ),
    "provider set": Documented(
        (
            "stead provider set compute-0017 --inventory VCPU:reserved=2 --dry-run",
            "stead provider set compute-0017 --trait CUSTOM_RACK_A",
        ),
        _PLAN,
    ),
    "provider create": Documented(
        (
            "stead provider create pool --inventory DISK_GB=4000",
            "stead provider create gpu0 --below compute-0017 --inventory PGPU=1",
        ),
        _PLAN,
    ),
    "provider move": Documented(
        ("stead provider move compute-0017_gpu0 --below compute-0018", "stead provider move compute-0017 --root"), _PLAN
    ),
    "provider delete": Documented(
        ("stead provider delete compute-0017 --recursive --dry-run", "stead provider delete pool"),
        '{"dry_run", "deleted": [{"uuid", "name"}, …]}',
    ),
    "provider disable": Documented(
        (
            "stead provider disable compute-0017 --reason 'new memory'",
            "stead provider disable 'compute-00*' --reason 'new rack'",
        ),
        '{"dry_run", "uuid", "name", "disabled": {"reason", "until"}}\n\nof several: '
        '{"dry_run", "providers": [{"uuid", "name", "disabled"}, …], "failed": [{"uuid", "reason"}, …]}',
    ),
    "provider enable": Documented(
        ("stead provider enable compute-0017", "stead provider enable --trait CUSTOM_RACK_A --yes"),
        '{"dry_run", "uuid", "name", "disabled": null}\n\nof several: as for `provider disable`',
    ),
    "alias list": Documented(("stead alias list", "stead alias list -o csv"), '{"aliases": [{"name", "uuid"}, …]}'),
    "alias set": Documented(
        (
            "stead alias set 11111111-1111-4111-8111-111111111111 web-1",
            "stead alias set 5ead0000-0000-4000-8000-000000000001 row-1",
        ),
        '{"name", "uuid"}',
    ),
    "alias delete": Documented(
        (
            "stead alias delete 11111111-1111-4111-8111-111111111111",
            "stead alias delete 11111111-1111-4111-8111-111111111111 --quiet",
        ),
        '{"deleted"}',
    ),
    "alias import": Documented(
        (
            "openstack server list --all-projects -f json | stead alias import -",
            "stead alias import servers.json projects.json",
        ),
        '{"imported": 12}',
    ),
    "topology apply": Documented(
        ("stead topology apply site.yaml --dry-run", "stead topology apply rack1.yaml rack2.yaml --prune"),
        '{"dry_run", "described", "steps": [{"action", "name", "text", "inventories"?}, …], "overcommitted", "kept"}',
    ),
    "topology dump": Documented(("stead topology dump > site.yaml", "stead topology dump --csv > site.csv"), _SITE),
    "topology csv": Documented(
        ("stead topology csv boards.csv --apply", "stead topology csv boards.csv > boards.yaml"), _SITE
    ),
    "topology nvidia-smi": Documented(
        ("stead topology nvidia-smi --apply", "stead topology nvidia-smi smi.xml topo.txt --name gpu-box-1"), _SITE
    ),
    "topology provider-yaml": Documented(
        (
            "stead topology provider-yaml /etc/nova/provider_config/*.yaml --apply",
            "stead topology provider-yaml gpu.yaml --host compute-0017",
        ),
        '{"dry_run", "described", "steps": [{"action", "name", "text", "inventories"?}, …], "overcommitted", "kept"}',
    ),
    "topology hwloc": Documented(
        (
            "stead topology hwloc machine.xml --name 'node{n:02}' --count 16",
            "lstopo --of xml | stead topology hwloc - --name compute-0017",
        ),
        _SITE,
    ),
    "completion": Documented(
        ("stead completion bash", "stead completion zsh"),
        '{"script"}, or with --line {"candidates": ["<word>", …]}',
    ),
    "doctor": Documented(
        ("stead doctor", "stead doctor --config-file /etc/placement/placement.conf --json"),
        '{"healthy", "findings": [{"subject", "state": "ok", "warning" or "problem", "text", "cure"}, …]}',
    ),
    "audit": Documented(
        ("stead audit", "stead audit --repair --yes"),
        '{"clean", "faults": {"<fault>": {"meaning", "help", "count"}}, "findings": [{"fault", "subject", "detail", '
        "…}, …], …}",
    ),
    "config show": Documented(
        ("stead config show --config-file placement.conf", "stead config show --changed"),
        '{"options": [{"group", "option", "value", "from"}, …], "ignored": […], "problems": […]}',
    ),
    "config sample": Documented(("stead config sample > placement.conf", "stead config sample | less")),
    "token create": Documented(
        ("stead token create nova --role service --expires 90d", "stead token create dashboard --role reader"),
        '{"name", "token", "user", "project", "roles", "expires"}',
    ),
    "token list": Documented(
        ("stead token list", "stead token list -o name"),
        '{"tokens": [{"name", "user", "project", "roles", "expires", "expired"}, …]}',
    ),
    "token revoke": Documented(("stead token revoke nova", "stead token revoke nova glance"), '{"revoked"}'),
    "db upgrade": Documented(("stead db upgrade", "stead db upgrade --sql"), '{"upgraded": ["<revision>", …]}'),
    "db downgrade": Documented(
        ("stead db downgrade --to upstream", "stead db downgrade --to upstream --sql"),
        '{"downgraded_to", "removed": […]}',
    ),
    "db version": Documented(("stead db version", "stead db version --json"), '{"<history>": "<revision>"}'),
    "db check": Documented(
        ("stead db check", "stead db check --config-file placement.conf"),
        '{"ready", "revisions", "pending", "objections", "warnings"}',
    ),
    "db new-epoch": Documented(("stead db new-epoch", "stead db new-epoch --config-file placement.conf"), '{"epoch"}'),
}
"""By the words of the command."""
