"""The options, with the groups, names, types and defaults of the service we replace; our own live in ``[stead]``."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log
from oslo_policy import opts as oslo_policy_opts

from stead.config.http_options import HTTP_OPTS

if TYPE_CHECKING:
    from collections.abc import Iterator

UNKNOWN_CONSUMER = "00000000-0000-0000-0000-000000000000"

DEFAULT_OPTS: list[cfg.Opt] = [
    cfg.StrOpt("tempdir", help="Accepted for compatibility; not used."),
    cfg.StrOpt(
        "pybasedir",
        default=str(Path(__file__).resolve().parents[1]),
        sample_default="<directory of the package>",
        help="Directory of the installed package. Only of use as $pybasedir in other values.",
    ),
    cfg.StrOpt("state_path", default="$pybasedir", help="Only of use as $state_path in other values."),
    cfg.BoolOpt("log_options", default=True, help="Write all options to the log at DEBUG when the service starts."),
]

API_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "Tokens are validated by Keystone, as [keystone_authtoken] says."),
            ("noauth2", "X-Auth-Token is believed as it is: `user:project`. For tests only."),
            ("token", "Static tokens, kept hashed in [stead] token_file."),
        ],
        deprecated_group="DEFAULT",
        help="How requests are authenticated.",
    ),
]

DATABASE_OPTS: list[cfg.Opt] = [
    # Not `required=True`: the embedded mode has no connection. Its absence is checked where the settings are made.
    cfg.StrOpt("connection", secret=True, help="SQLAlchemy URL of the database. Required."),
    cfg.StrOpt("connection_parameters", default="", help="Appended to the URL: `param1=value1&param2=value2`."),
    cfg.BoolOpt("sqlite_synchronous", default=True, help="Whether SQLite waits for the disk on each commit."),
    cfg.StrOpt("slave_connection", secret=True, help="URL of a replica. Accepted for compatibility; not read from."),
    cfg.StrOpt("mysql_sql_mode", default="TRADITIONAL", help="SQL mode of MySQL sessions; empty: the server's own."),
    cfg.IntOpt("connection_recycle_time", default=3600, help="Seconds after which a pooled connection is replaced."),
    cfg.IntOpt("max_pool_size", help="Connections kept open by each process, for reads and for writes; 10 if not set."),
    cfg.IntOpt("max_overflow", help="Connections opened beyond max_pool_size when all are in use."),
    cfg.IntOpt("pool_timeout", help="Seconds to wait for a connection of the pool."),
    cfg.IntOpt("max_retries", default=10, help="Attempts to connect at start; -1: for ever."),
    cfg.IntOpt("retry_interval", default=10, help="Seconds between attempts to connect at start."),
    cfg.IntOpt("connection_debug", default=0, help="50 and more: log SQL; 100 and more: its results too."),
    cfg.BoolOpt("connection_trace", default=False, help="Add the place in the code to SQL statements, as comments."),
    cfg.BoolOpt("sync_on_startup", default=False, help="Bring the tables up to date when the service starts."),
]

PLACEMENT_OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "randomize_allocation_candidates",
        default=False,
        help="Return a random sample when `limit` cuts the candidates, instead of the first ones.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_project_id",
        default=UNKNOWN_CONSUMER,
        help="Project of consumers that were written without one (microversions before 1.8).",
    ),
    cfg.StrOpt(
        "incomplete_consumer_user_id",
        default=UNKNOWN_CONSUMER,
        help="User of consumers that were written without one (microversions before 1.8).",
    ),
    cfg.IntOpt(
        "allocation_conflict_retry_count",
        default=10,
        help="Accepted for compatibility: providers are locked before their generations are read, so that no attempt "
        "fails for them. Other lost races are tried again until [stead] claim_timeout.",
    ),
    cfg.IntOpt(
        "max_allocation_candidates",
        default=-1,
        help="Most candidates generated for one request, before `limit` is applied; -1: no limit.",
    ),
    cfg.StrOpt(
        "allocation_candidates_generation_strategy",
        default="depth-first",
        choices=[
            ("depth-first", "All candidates of one tree, then those of the next."),
            ("breadth-first", "One candidate of each tree in turn."),
        ],
        help="In which order the trees contribute candidates.",
    ),
]

WORKAROUNDS_OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "optimize_for_wide_provider_trees",
        default=False,
        help="Accepted for compatibility: branches that lead nowhere are always pruned.",
    ),
]

CORS_OPTS: list[cfg.Opt] = [
    cfg.ListOpt("allowed_origin", help="Origins that browsers may call from; CORS is off when not set."),
    cfg.BoolOpt("allow_credentials", default=True, help="Whether browsers may send credentials."),
    cfg.ListOpt(
        "expose_headers",
        default=[
            "X-Auth-Token",
            "X-Openstack-Request-Id",
            "X-Subject-Token",
            "X-Service-Token",
            "OpenStack-API-Version",
        ],
        help="Response headers that scripts may read.",
    ),
    cfg.IntOpt("max_age", default=3600, help="Seconds for which browsers may remember a preflight answer."),
    cfg.ListOpt("allow_methods", default=["GET", "PUT", "POST", "DELETE", "PATCH"], help="Methods scripts may use."),
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
        help="Request headers scripts may send.",
    ),
]

OSLO_MIDDLEWARE_OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enable_proxy_headers_parsing",
        default=False,
        help="Believe Forwarded and X-Forwarded-* headers. Only behind a proxy that sets or removes them.",
    ),
]

STEAD_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "token_file",
        help="File of hashed tokens, needed by auth_strategy `token`. Embedded: tokens.json in the data directory.",
    ),
    cfg.FloatOpt(
        "write_timeout",
        default=10.0,
        min=0.1,
        help="Seconds for which one write may wait and be retried before the client gets 503, or 409 where the API has "
        "one for lost races.",
    ),
    cfg.FloatOpt(
        "claim_timeout",
        default=10.0,
        min=0.1,
        help="The same for a write of allocations: the client gets 409 if others were faster every time, as they may "
        "be where several nodes of a Galera cluster are written to, and 503 if the database does not answer.",
    ),
    cfg.FloatOpt(
        "answer_timeout",
        default=30.0,
        min=1.0,
        help="Seconds for which a database server may be silent within a statement before the client gets 503.",
    ),
    cfg.BoolOpt(
        "require_durable_commits",
        default=False,
        help="Refuse to start on a database whose settings may lose what was acknowledged; else they give a warning.",
    ),
    cfg.FloatOpt(
        "reconcile_interval",
        default=0.0,
        min=0.0,
        help="Seconds after which each worker compares what it knows with the database, to see what another service "
        "wrote there. Needed while one does, as during a rolling switch, and to be switched off afterwards. 0: never.",
    ),
    cfg.IntOpt(
        "max_watchers",
        default=256,
        min=0,
        help="Maximum number of waiting requests and open streams of `/changes` per worker. Default 256. More return "
        "503; 0 disables waiting.",
    ),
    cfg.IntOpt(
        "max_watcher_threads",
        default=4,
        min=0,
        help="Maximum number of them per process that hold a thread, as they do under other WSGI servers than `stead "
        "serve`. Default 4. Leave threads for other requests.",
    ),
    cfg.IntOpt(
        "kept_changes",
        default=1_000_000,
        min=1,
        help="Writes of which it is kept what they changed, for who asks for changes; who asks for more gets 410.",
    ),
    cfg.IntOpt("max_claims", default=1000, min=1, help="Claims in one request to POST /claims; more is 413."),
    cfg.IntOpt(
        "max_body_size",
        default=16 * 1024 * 1024,
        min=1,
        help="Maximum size of a request body, in bytes; larger bodies return 413. Default 16 MiB. On routes whose body "
        "describes one thing the limit is 64 KiB, if that is less. A body may have one JSON value per 12 bytes of "
        "its limit.",
    ),
    cfg.IntOpt("max_query_length", default=64_000, min=1, help="Bytes of a request's query; more is 414."),
    cfg.IntOpt("max_request_groups", default=3000, min=1, help="Groups in a query for candidates; more is 400."),
    cfg.IntOpt(
        "max_suffix_length", default=64, min=1, max=64, help="Characters of the suffix of a request group; more is 400."
    ),
    cfg.IntOpt(
        "max_allocations",
        default=250_000,
        min=1,
        help="Allocations in one request, each of one class of one provider for one consumer; more is 413.",
    ),
    cfg.IntOpt(
        "max_candidate_work",
        default=5_000_000,
        min=0,
        help="Work for one query for candidates, in units as docs/api.md has them; what was found until then is "
        "returned with the header Stead-Incomplete. 0: no limit.",
    ),
    cfg.IntOpt(
        "max_concurrent_requests",
        default=0,
        min=0,
        help="Requests that one worker works on at a time; more is 503. Has an effect below the number of its threads. "
        "0: no limit, so requests wait for a thread.",
    ),
    cfg.StrOpt(
        "metrics",
        help="Answer Prometheus at this `[address:]port`; on this machine only, if without address. Not set: never.",
    ),
    cfg.StrOpt(
        "metrics_directory",
        help="Where the workers of one service tell each other what they counted: a directory of its own, writable, "
        "best in memory (below /run). `stead serve` makes one by itself; other servers need it.",
    ),
    cfg.BoolOpt(
        "log_json",
        default=False,
        help="Log one JSON object a line, to where the options of oslo.log say; the line of a request has more fields.",
    ),
    cfg.BoolOpt(
        "traces",
        default=False,
        help="Send OpenTelemetry traces, as OTEL_… variables in the environment say. Needs the extra `otel`.",
    ),
    cfg.StrOpt(
        "path_prefix",
        default="",
        help="Path below which everything is, as `/placement`, for a server that mounts nothing by itself, like `stead "
        "serve`. Not where the server in front removes it.",
    ),
    cfg.BoolOpt(
        "compress_responses",
        default=False,
        help="Send bodies of 1 KiB and more as gzip to clients that accept it. For slow networks: it takes more time "
        "than a fast one saves.",
    ),
]

GROUPS: dict[str, list[cfg.Opt]] = {
    "DEFAULT": DEFAULT_OPTS,
    "api": API_OPTS,
    "cors": CORS_OPTS,
    "oslo_middleware": OSLO_MIDDLEWARE_OPTS,
    "placement": PLACEMENT_OPTS,
    "placement_database": DATABASE_OPTS,
    "stead": [*STEAD_OPTS, *HTTP_OPTS],
    "workarounds": WORKAROUNDS_OPTS,
}


def register(conf: cfg.ConfigOpts) -> None:
    """Make *conf* know every option the service has, those of oslo.log and oslo.policy included."""
    for group, options in GROUPS.items():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
    set_log_defaults()
    log.register_options(conf)
    for name, options in oslo_policy_opts.list_opts():
        conf.register_opts(options, group=name)


def set_log_defaults() -> None:
    """Let oslo.log's options have our defaults, in samples too: ``placement.conf`` of ``oslo.config.opts.defaults``."""
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), "routes=INFO"])


def known_to(conf: cfg.ConfigOpts) -> Iterator[tuple[str, cfg.Opt]]:
    """The options that :func:`register` has made known to *conf*, each with its group."""
    for name, options in [*GROUPS.items(), *oslo_policy_opts.list_opts()]:
        yield from ((name, option) for option in options)
    (of_log,) = entry_points(group="oslo.config.opts", name="oslo.log")
    for _, options in of_log.load()():
        yield from (("DEFAULT", option) for option in options if option.dest in conf)  # it lists more than it registers


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Our options by group: the entry point ``placement.conf`` of ``oslo.config.opts``."""
    return list(GROUPS.items())
