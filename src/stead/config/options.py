"""The options, with OpenStack's groups, names, types and defaults; Stead's own options are in ``[stead]``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log
from oslo_policy import opts as oslo_policy_opts

from stead.aliases import file_of_user
from stead.domain.limits import RequestLimits

if TYPE_CHECKING:
    from collections.abc import Iterator


_LIMITS = RequestLimits()

# Options of the HTTP server of ``stead serve``, in ``[stead]``. Other WSGI servers have their own equivalents.


HTTP_OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "max_connections",
        default=10_000,
        min=1,
        help="Maximum number of open connections per worker of `stead serve`. Default 10000, or 128 less than the "
        "limit of open files. At the limit, the longest idle connection is closed for a new one.",
    ),
    cfg.IntOpt(
        "max_head_size",
        default=128 * 1024,
        min=1024,
        help="Maximum size in bytes of a request line and its headers. Default 131072. Larger heads return 414 or 431.",
    ),
    cfg.FloatOpt(
        "head_timeout",
        default=10.0,
        min=0.1,
        help="Seconds from a new connection, or from the first byte of a later request, until the head of the request "
        "is complete. Default 10. Then the connection is closed.",
    ),
    cfg.FloatOpt(
        "idle_timeout",
        default=120.0,
        min=1.0,
        help="Seconds for which a connection is kept between two requests. Default 120. Set it higher than the same "
        "timeout of a proxy in front.",
    ),
    cfg.FloatOpt(
        "body_timeout",
        default=15.0,
        min=0.1,
        help="Seconds between two pieces of a request body. Default 15. The whole body may take this time, plus "
        "one second for each 64 KiB. Slower bodies return 408.",
    ),
    cfg.IntOpt(
        "max_bodies_size",
        default=64 * 1024 * 1024,
        min=1024 * 1024,
        help="Maximum memory in bytes of all requests of a worker that are received or wait: heads, bodies and "
        "pipelined requests. Default 67108864. The first 16 KiB of each request do not count. Requests beyond it "
        "return 503.",
    ),
    cfg.FloatOpt(
        "send_timeout",
        default=30.0,
        min=0.1,
        help="Seconds for which a client may read nothing of its response. Default 30. The whole response may "
        "take this time, plus one second for each 64 KiB. Then the connection is closed.",
    ),
    cfg.IntOpt(
        "max_unsent_size",
        default=64 * 1024 * 1024,
        min=1024 * 1024,
        help="Maximum size in bytes of all responses of a worker that clients have not read yet. Default "
        "67108864. Above it, large reads wait. Above twice this size, GET responses of more than 1 MiB become 503.",
    ),
    cfg.IntOpt(
        "max_queue",
        default=2048,
        min=1,
        help="Maximum number of requests per worker that wait for a thread. Default 2048. More return 503, at most "
        "400 a second. Meanwhile their connections are not read.",
    ),
    cfg.IntOpt(
        "max_queue_per_client",
        default=1024,
        min=1,
        help="Maximum number of requests of one client that wait for a thread of a worker. A client is a credential "
        "that was accepted before, or all other requests of an address. Default 1024. More return 503.",
    ),
    cfg.FloatOpt(
        "queue_timeout",
        default=30.0,
        min=0.1,
        help="Seconds for which a request waits for a thread. Default 30. Then it returns 503.",
    ),
    cfg.ListOpt(
        "proxy_protocol_from",
        default=[],
        help="Addresses and networks of proxies, separated by commas. Their TCP connections begin with a header of the "
        "PROXY protocol, version 1 or 2, which names the client for logs and for fairness. Connections without a "
        "valid header are closed. Default: none.",
    ),
    cfg.FloatOpt(
        "worker_timeout",
        default=30.0,
        min=0.0,
        help="Seconds after which a worker that does not answer its own health check is replaced. The stacks of its "
        "threads are logged. Default 30; 0 never replaces a worker.",
    ),
]


# The options of the web interface, in ``[stead]``.


UI_OPTS: list[cfg.Opt] = [
    cfg.BoolOpt("ui", default=True, help="Serve the web interface at /ui/. Default true."),
    cfg.BoolOpt(
        "ui_writes",
        help="Offer claims and releases in the web interface to users whose policy allows them. Default false: the web "
        "interface only reads. Embedded: default true.",
    ),
    cfg.StrOpt(
        "ui_aliases",
        default="",
        metavar="FILE",
        help="File of `stead alias` whose names the web interface shows beside UUIDs. It is read again when "
        "it changes. Default: none. Embedded: the file of the user who runs the service.",
    ),
    cfg.ListOpt(
        "ui_hosts",
        default=[],
        help="Host names by which clients reach the web interface, the metrics and, with noauth2, the API, without "
        "ports. Other names return 403, which stops DNS rebinding. IP addresses and localhost are always accepted. "
        "Default: any name, but over loopback none, unless `[oslo_middleware] enable_proxy_headers_parsing` says that "
        "a proxy is before the service. Embedded: default none.",
    ),
    cfg.BoolOpt(
        "public_docs",
        default=True,
        help="Serve the API reference at /docs, and /openapi.json, without a token. Default true.",
    ),
]


@dataclass(frozen=True, slots=True)
class UiSettings:
    """The web interface. ``hosts`` are lower case; None accepts every Host header. ``aliases`` is a file of names."""

    enabled: bool
    writes: bool
    hosts: frozenset[str] | None
    public_docs: bool
    aliases: Path | None = None


def ui_settings(conf: cfg.ConfigOpts, *, embedded: bool) -> UiSettings:
    """The settings in *conf*; an *embedded* service has defaults of its own."""
    group = conf.stead
    hosts = frozenset(host.lower() for host in group.ui_hosts)
    return UiSettings(
        enabled=group.ui,
        writes=embedded if group.ui_writes is None else group.ui_writes,
        hosts=hosts if hosts or embedded else None,
        public_docs=group.public_docs,
        aliases=Path(group.ui_aliases) if group.ui_aliases else file_of_user() if embedded else None,
    )


UNKNOWN_CONSUMER = "00000000-0000-0000-0000-000000000000"

DEFAULT_OPTS: list[cfg.Opt] = [
    cfg.StrOpt("tempdir", help="Accepted for compatibility; not used."),
    cfg.StrOpt(
        "pybasedir",
        default=str(Path(__file__).resolve().parents[1]),
        sample_default="<directory of the package>",
        help="Directory of the installed package. Has an effect only as $pybasedir in other values.",
    ),
    cfg.StrOpt(
        "state_path", default="$pybasedir", help="State directory. Has an effect only as $state_path in other values."
    ),
    cfg.BoolOpt("log_options", default=True, help="Log all options at DEBUG when the service starts. Default true."),
]

API_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "Keystone validates tokens; see [keystone_authtoken]."),
            ("noauth2", "X-Auth-Token is `user:project`, without any check. For tests only."),
            ("token", "Static tokens, stored as hashes in [stead] token_file."),
        ],
        deprecated_group="DEFAULT",
        help="How requests are authenticated. Default keystone.",
    ),
]

DATABASE_OPTS: list[cfg.Opt] = [
    # Not `required=True`: the embedded mode has no connection. `settings_of` checks it instead.
    cfg.StrOpt("connection", secret=True, help="SQLAlchemy URL of the database. Required."),
    cfg.StrOpt(
        "connection_parameters",
        default="",
        help="Parameters appended to the URL, as `param1=value1&param2=value2`. Default: none.",
    ),
    cfg.BoolOpt("sqlite_synchronous", default=True, help="Wait for the disk on each commit to SQLite. Default true."),
    cfg.StrOpt(
        "slave_connection",
        secret=True,
        help="Accepted for compatibility: URL of a replica. Stead does not read from it.",
    ),
    cfg.StrOpt(
        "mysql_sql_mode",
        default="TRADITIONAL",
        help="SQL mode of MySQL sessions. Default TRADITIONAL; an empty value keeps the server's own.",
    ),
    cfg.IntOpt(
        "connection_recycle_time",
        default=3600,
        help="Seconds after which a pooled connection is replaced. Default 3600.",
    ),
    cfg.IntOpt(
        "max_pool_size",
        help="Maximum number of connections that each process keeps open, for reads and for writes each. Default 10.",
    ),
    cfg.IntOpt(
        "max_overflow",
        help="Maximum number of connections beyond max_pool_size while all are in use. Each process has as many "
        "for reads and for writes. Not set: the default of SQLAlchemy.",
    ),
    cfg.IntOpt(
        "pool_timeout", help="Seconds to wait for a free connection of the pool. Not set: the default of SQLAlchemy."
    ),
    cfg.IntOpt(
        "max_retries",
        default=10,
        help="Number of attempts to connect at start. Default 10; -1 retries without end. A refused password, "
        "a missing database or a file that cannot be opened ends the start at once.",
    ),
    cfg.IntOpt("retry_interval", default=10, help="Seconds between attempts to connect at start. Default 10."),
    cfg.IntOpt(
        "connection_debug",
        default=0,
        help="SQL in the log: 50 or more logs statements, 100 or more also their results. Default 0.",
    ),
    cfg.BoolOpt(
        "connection_trace",
        default=False,
        help="Add the calling code to each SQL statement, as a comment. Default false.",
    ),
    cfg.BoolOpt("sync_on_startup", default=False, help="Upgrade the tables when the service starts. Default false."),
]

PLACEMENT_OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "randomize_allocation_candidates",
        default=False,
        help="Return a random sample if `limit` cuts the candidates, instead of the first ones. Default false.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_project_id",
        default=UNKNOWN_CONSUMER,
        help="Project of consumers that are created without one (microversions before 1.8). Default: a UUID of zeros.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_user_id",
        default=UNKNOWN_CONSUMER,
        help="User of consumers that are created without one (microversions before 1.8). Default: a UUID of zeros.",
    ),
    cfg.IntOpt(
        "allocation_conflict_retry_count",
        default=10,
        help="Accepted for compatibility. Stead locks providers before it reads their generations, so no attempt "
        "fails for them. It retries other conflicts until [stead] claim_timeout.",
    ),
    cfg.IntOpt(
        "max_allocation_candidates",
        default=-1,
        help="Maximum number of candidates generated for one request, before `limit` is applied. Default -1: no "
        "maximum.",
    ),
    cfg.StrOpt(
        "allocation_candidates_generation_strategy",
        default="depth-first",
        choices=[
            ("depth-first", "All candidates of one tree, then those of the next."),
            ("breadth-first", "One candidate of each tree, then the second of each, and so on."),
        ],
        help="Order in which provider trees contribute candidates. Default depth-first.",
    ),
]

WORKAROUNDS_OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "optimize_for_wide_provider_trees",
        default=False,
        help="Accepted for compatibility. Stead always prunes branches without a candidate.",
    ),
]

CORS_OPTS: list[cfg.Opt] = [
    cfg.ListOpt("allowed_origin", help="Origins from which browsers may send requests. Not set: CORS is off."),
    cfg.BoolOpt("allow_credentials", default=True, help="Allow browsers to send credentials. Default true."),
    cfg.ListOpt(
        "expose_headers",
        default=[
            "X-Auth-Token",
            "X-Openstack-Request-Id",
            "X-Subject-Token",
            "X-Service-Token",
            "OpenStack-API-Version",
        ],
        help="Response headers that scripts may read. Default: those of Keystone and of the API.",
    ),
    cfg.IntOpt(
        "max_age", default=3600, help="Seconds for which browsers may cache a preflight response. Default 3600."
    ),
    cfg.ListOpt(
        "allow_methods",
        default=["GET", "PUT", "POST", "DELETE", "PATCH"],
        help="Methods that scripts may use. Default: GET, PUT, POST, DELETE and PATCH.",
    ),
    cfg.ListOpt(
        "allow_headers",
        default=[
            "X-Auth-Token",
            "X-Openstack-Request-Id",
            "X-Identity-Status",
            "X-Roles",
            "X-Service-Catalog",
            "X-User-Id",
            "X-Tenant-Id",
            "OpenStack-API-Version",
        ],
        help="Request headers that scripts may send. Default: those of Keystone and of the API.",
    ),
]

OSLO_MIDDLEWARE_OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enable_proxy_headers_parsing",
        default=False,
        help="Trust the headers Forwarded and X-Forwarded-*. Default false. Set it only behind a proxy that sets "
        "or removes them.",
    ),
]

STEAD_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "token_file",
        help="Path of the file of hashed tokens. Required with auth_strategy `token`. Embedded: tokens.json in "
        "the data directory.",
    ),
    cfg.FloatOpt(
        "write_timeout",
        default=10.0,
        min=0.1,
        help="Seconds for which a write may wait and be retried. Default 10. Then the client gets 503, or 409 "
        "where the API defines it for conflicts.",
    ),
    cfg.FloatOpt(
        "claim_timeout",
        default=10.0,
        min=0.1,
        help="Seconds for which a write of allocations may wait and be retried. Default 10. Then the client gets "
        "409 if it lost every conflict, or 503 if the database does not answer.",
    ),
    cfg.FloatOpt(
        "answer_timeout",
        default=30.0,
        min=1.0,
        help="Seconds for which a database server may be silent within a statement. Default 30. Then the client "
        "gets 503.",
    ),
    cfg.BoolOpt(
        "require_durable_commits",
        default=False,
        help="Refuse to start on a database whose settings may lose acknowledged writes. Default false: log a warning.",
    ),
    cfg.FloatOpt(
        "reconcile_interval",
        default=0.0,
        min=0.0,
        help="Seconds between two passes in which each worker compares its snapshot with the database. Set it "
        "while another service writes to the same database, as during a rolling switch, and remove it "
        "afterwards. Default 0: no passes.",
    ),
    cfg.IntOpt(
        "max_lease",
        default=_LIMITS.lease,
        min=0,
        help="Maximum number of seconds from now to the end of a lease. Default 0: no maximum. Requests for more "
        "return 400. Claims without a lease have no end, whatever the maximum is.",
    ),
    cfg.FloatOpt(
        "expiry_interval",
        default=1.0,
        min=0.1,
        max=5.0,
        help="Seconds between two looks of each worker for leases that have ended, 0.1 to 5. Default 1. An ended lease "
        "counts as used until a worker finds it.",
    ),
    cfg.StrOpt(
        "snapshot_dir",
        default="",
        help="Directory in which workers store their snapshot, so that the next start loads only what changed since, "
        "and workers of one host share memory. It must exist, be local, and be writable for this service only. "
        "Default empty: no file. See operations.md.",
    ),
    cfg.FloatOpt(
        "snapshot_interval",
        default=600.0,
        min=1.0,
        help="Seconds between two writes of the file in `snapshot_dir`, at least. Default 600. Workers also write it "
        "when they stop.",
    ),
    cfg.IntOpt(
        "max_watchers",
        default=256,
        min=0,
        help="Maximum number of waiting requests and open streams of `/changes` per worker. Default 256; 0 disables "
        "waiting. Clients share them: another client ends one of the client that has most. More return 503.",
    ),
    cfg.IntOpt(
        "max_watcher_threads",
        default=4,
        min=0,
        help="Maximum number of them per process that hold a thread, as they do under other WSGI servers than "
        "`stead serve`. Default 4. Leave threads for other requests.",
    ),
    cfg.IntOpt(
        "kept_changes",
        default=1_000_000,
        min=1,
        help="Number of writes kept in the change log for `GET /changes`. Default 1000000. Older tokens return 410.",
    ),
    cfg.IntOpt(
        "max_claims",
        default=_LIMITS.claims,
        min=1,
        help="Maximum number of claims in one request to POST /claims. Default 1000. More return 413.",
    ),
    cfg.IntOpt(
        "max_tree_providers",
        default=_LIMITS.tree_providers,
        min=1,
        help="Maximum number of providers in one request to PUT /provider_trees. Default 10000. More return 413. A "
        "request is one transaction, and claims from its providers wait for it.",
    ),
    cfg.IntOpt(
        "max_body_size",
        default=_LIMITS.body_size,
        min=1,
        help="Maximum size of a request body, in bytes; larger bodies return 413. Default 16 MiB. On routes whose body "
        "describes one thing the limit is 64 KiB, if that is less. A body may have one JSON value per 12 bytes of "
        "its limit.",
    ),
    cfg.IntOpt(
        "max_answer_size",
        default=_LIMITS.answer_size,
        min=1,
        help="Maximum size of a list of providers or trees, or of candidates, in bytes. Default 1 GiB. Larger ones "
        "return 400. A worker needs this memory for one response.",
    ),
    cfg.IntOpt(
        "max_query_length",
        default=_LIMITS.query_length,
        min=1,
        help="Maximum length of a query, in bytes. Default 64000. Longer queries return 414.",
    ),
    cfg.IntOpt(
        "max_request_groups",
        default=_LIMITS.groups,
        min=1,
        help="Maximum number of request groups in a candidate query. Default 3000. More return 400.",
    ),
    cfg.IntOpt(
        "max_suffix_length",
        default=_LIMITS.suffix_length,
        min=1,
        max=64,
        help="Maximum length of the suffix of a request group. Default 64. Longer suffixes return 400.",
    ),
    cfg.IntOpt(
        "max_allocations",
        default=_LIMITS.allocations,
        min=1,
        help="Maximum number of allocations in one request, each of one class of one provider for one consumer. "
        "Default 250000. More return 413.",
    ),
    cfg.IntOpt(
        "max_candidate_work",
        default=5_000_000,
        min=0,
        help="Maximum work of one candidate query, in the units of docs/api.md. Default 5000000; 0: no maximum. "
        "Beyond it, the response has the candidates found until then, and the header Stead-Incomplete.",
    ),
    cfg.StrOpt(
        "default_order",
        default="off",
        choices=[
            ("off", "None: in the order in which they are found, and claims draw a place."),
            ("pack", "The fullest trees first."),
            ("spread", "The emptiest trees first."),
            ("headroom", "First those after which the most still fits of the mix, see docs/stead-api.md."),
        ],
        help="Order of candidates and claims whose query has no `order_by`, at every microversion, as for nova. With "
        "`limit`, the best are returned. It replaces `[placement] randomize_allocation_candidates`. Default off.",
    ),
    cfg.IntOpt(
        "max_concurrent_requests",
        default=0,
        min=0,
        help="Maximum number of requests that one worker processes at a time. Default 0: no maximum, so requests "
        "wait for a thread. More return 503. Has an effect only below the number of threads.",
    ),
    cfg.StrOpt(
        "metrics",
        help="Address for Prometheus, `[address:]port`. Without an address, it is loopback. Not set: no metrics.",
    ),
    cfg.StrOpt(
        "metrics_directory",
        help="Directory in which the workers of one service share their metrics. It must be writable, used by "
        "nothing else, and best in memory (below /run). `stead serve` creates one by itself; other servers "
        "need it.",
    ),
    cfg.StrOpt(
        "capacity_metrics",
        default="totals",
        choices=[
            ("off", "None."),
            ("totals", "Sums by resource class."),
            ("aggregates", "Also the sums of each aggregate."),
            ("hosts", "Also the inventories of each provider, about 300 bytes for each inventory in each scrape."),
        ],
        help="Metrics of capacity and usage beside those of the service. Default totals.",
    ),
    cfg.ListOpt(
        "capacity_traits",
        default=[],
        help="Traits for which the metrics of capacity also have the sums of the providers that have the trait. "
        "Default: none. Example: HW_GPU_API_VULKAN,CUSTOM_GPU_A100.",
    ),
    cfg.BoolOpt(
        "headroom_metrics",
        default=False,
        help="Metrics of how many times each flavor fits, for the first 1,000 flavors by name. Default false.",
    ),
    cfg.DictOpt(
        "headroom_aggregates",
        default={},
        help="Aggregates for which `headroom_metrics` also has samples: how many times each flavor fits into the "
        "trees whose root is in the aggregate. Up to 32, as name:uuid, separated by commas. The name is the label. "
        "Default: none. "
        "Example: zone-a:2e8b1c5a-6d1f-4c55-9f0e-0b6a6a1f2c11.",
    ),
    cfg.BoolOpt(
        "log_json",
        default=False,
        help="Log each line as a JSON object, to the targets of oslo.log. Default false. The line of a request "
        "then has more fields.",
    ),
    cfg.BoolOpt(
        "traces",
        default=False,
        help="Send OpenTelemetry traces. Default false. Variables OTEL_… in the environment set the target. "
        "Requires the extra `otel`.",
    ),
    cfg.StrOpt(
        "path_prefix",
        default="",
        help="Prefix of the path of every URL, such as `/placement`. Default: none. Set it if the prefix reaches "
        "`stead serve`; leave it empty if the server in front removes the prefix.",
    ),
    cfg.BoolOpt(
        "compress_responses",
        default=False,
        help="Send bodies of 1 KiB or more as gzip to clients that accept it. Default false. Compression helps "
        "on slow networks only.",
    ),
]

GROUPS: dict[str, list[cfg.Opt]] = {
    "DEFAULT": DEFAULT_OPTS,
    "api": API_OPTS,
    "cors": CORS_OPTS,
    "oslo_middleware": OSLO_MIDDLEWARE_OPTS,
    "placement": PLACEMENT_OPTS,
    "placement_database": DATABASE_OPTS,
    "stead": [*STEAD_OPTS, *HTTP_OPTS, *UI_OPTS],
    "workarounds": WORKAROUNDS_OPTS,
}


def register(conf: cfg.ConfigOpts) -> None:
    """Register every option of the service in *conf*, including those of oslo.log and oslo.policy."""
    for group, options in GROUPS.items():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
    set_log_defaults()
    log.register_options(conf)
    for name, options in oslo_policy_opts.list_opts():
        conf.register_opts(options, group=name)


def set_log_defaults() -> None:
    """Give oslo.log's options Stead's defaults, in samples too: ``placement.conf`` of ``oslo.config.opts.defaults``."""
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), "routes=INFO"])


def known_to(conf: cfg.ConfigOpts) -> Iterator[tuple[str, cfg.Opt]]:
    """The options that :func:`register` has registered in *conf*, each with its group."""
    for name, options in [*GROUPS.items(), *oslo_policy_opts.list_opts()]:
        yield from ((name, option) for option in options)
    # oslo.log lists more than it registers.
    yield from (("DEFAULT", option) for option in _options_of_log() if option.dest in conf)


@cache
def _options_of_log() -> tuple[cfg.Opt, ...]:
    # To find an entry point, the metadata of all installed packages are read.
    (of_log,) = entry_points(group="oslo.config.opts", name="oslo.log")
    return tuple(option for _, options in of_log.load()() for option in options)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Stead's options by group: the entry point ``placement.conf`` of ``oslo.config.opts``."""
    return list(GROUPS.items())
