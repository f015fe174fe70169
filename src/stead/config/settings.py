"""The configuration as plain values, read once."""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast
from uuid import UUID

from oslo_config import cfg
from oslo_log import log
from platformdirs import user_data_path
from sqlalchemy.engine import URL

from stead.config import options
from stead.config.masking import MaskedOptions, complete_url, masked_url
from stead.config.options import UiSettings, ui_settings
from stead.config.values import ConfigError, doubts, explained, names_of, places_in, require_known, written_in
from stead.domain.limits import RequestLimits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


CapacityMetrics = Literal["off", "totals", "aggregates", "hosts"]
AuthStrategy = Literal["keystone", "noauth2", "token"]

_log = logging.getLogger(__name__)


HOSTS_OPTION = "[stead] ui_hosts"
"""The option with the names that a Host header may have, for refusals."""

MOST_AGGREGATES = 32
"""Maximum number of aggregates in the metrics of flavors, of which each is a sample for each flavor."""


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """How to reach the database. Times are seconds; None leaves SQLAlchemy's own default."""

    url: str = field(repr=False)  # complete, with driver and password
    sync_on_startup: bool = False
    sqlite_synchronous: bool = True
    mysql_sql_mode: str = "TRADITIONAL"  # empty: leave the server's own
    connection_recycle_time: int = 3600
    max_pool_size: int | None = None
    max_overflow: int | None = None
    pool_timeout: int | None = None
    max_retries: int = 10  # attempts at start; -1: no limit
    retry_interval: int = 10
    connection_trace: bool = False
    write_timeout: float = 10.0  # maximum duration of one write, with its waits and retries
    answer_timeout: float = 30.0  # maximum silence of the server in the middle of a statement
    claim_timeout: float = 10.0  # the same for writes of allocations
    require_durable_commits: bool = False
    reconcile_interval: float = 0.0  # between two passes that detect writes of another service; 0: none
    kept_changes: int = 1_000_000  # writes in the change log
    snapshot_file: Path | None = None  # for the next start; None: none
    snapshot_interval: float = 600.0  # between two writes of it, at least
    expiry_interval: float = 1.0  # between two looks for leases that have ended

    @property
    def file(self) -> Path | None:
        """The file of the database, if it is one of this machine."""
        scheme, _, path = self.url.partition(":///")
        return Path(path).absolute() if scheme.partition("+")[0] == "sqlite" and path else None


@dataclass(frozen=True, slots=True)
class CandidateSettings:
    """The defaults for generating allocation candidates."""

    randomize: bool = False
    maximum: int | None = None  # per request, before `limit`; None: no limit
    breadth_first: bool = False
    order: str | None = None  # of requests without `order_by`, a value of it; None: none


@dataclass(frozen=True, slots=True)
class AllocationSettings:
    """Project and user of allocations from clients that cannot state them."""

    incomplete_project_id: str = options.UNKNOWN_CONSUMER
    incomplete_user_id: str = options.UNKNOWN_CONSUMER


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Maximum work of a query, and numbers of requests at once."""

    candidate_work: int | None  # in the units of candidates.work; None: no limit
    concurrent_requests: int  # per worker; 0: the number of its threads
    watchers: int  # per worker
    watcher_threads: int  # watchers that may hold a thread


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Limits of the HTTP server of ``stead serve``, per worker. Sizes are bytes, times are seconds."""

    connections: int
    head_size: int
    head_timeout: float
    idle_timeout: float
    body_timeout: float
    bodies_size: int
    send_timeout: float
    unsent_size: int
    queue: int
    queue_per_client: int
    queue_timeout: float
    proxies: tuple[IPv4Network | IPv6Network, ...]  # whose connections begin with a header of the PROXY protocol
    worker_timeout: float  # 0: a worker that does not answer is not replaced


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Metrics, logs and traces of the service."""

    metrics: tuple[str, int] | None  # address and port; None: no metrics
    metrics_dir: Path | None  # shared by the workers; always set if metrics are
    capacity: CapacityMetrics
    capacity_traits: tuple[str, ...]  # traits with their own sums
    headroom: bool  # how many times each flavor fits
    headroom_aggregates: Mapping[str, str]  # uuid by label
    log_json: bool
    traces: bool


@dataclass(frozen=True, slots=True)
class CorsSettings:
    """Cross-origin access. Off without origins; names keep the operator's spelling."""

    allowed_origins: tuple[str, ...] = ()
    allow_credentials: bool = True
    expose_headers: tuple[str, ...] = ()
    max_age: int | None = 3600
    allow_methods: tuple[str, ...] = ()
    allow_headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the operator."""

    database: DatabaseSettings
    candidates: CandidateSettings
    allocations: AllocationSettings
    cors: CorsSettings
    request_limits: RequestLimits
    limits: LimitSettings
    http: HttpSettings
    watch: WatchSettings
    ui: UiSettings
    auth_strategy: AuthStrategy
    token_file: Path | None  # always set if auth_strategy is `token`
    embedded: bool
    data_dir: Path  # of the embedded mode: absolute, need not exist; without meaning in another mode
    proxy_headers: bool
    path_prefix: str  # begins with a slash and does not end with one; empty: none
    compress_responses: bool
    config_files: tuple[Path, ...]  # absolute, as given or found
    config_dirs: tuple[Path, ...]
    conf: cfg.ConfigOpts = field(repr=False, compare=False)  # for oslo.policy, oslo.log, keystonemiddleware


def load(
    files: Sequence[Path] | None = None,
    dirs: Sequence[Path] | None = None,
    *,
    data_dir: Path | None = None,
    program: str | None = None,
) -> Settings:
    """The settings from *files*, from the ``*.conf`` files in *dirs* and from the environment.

    If neither files nor directories are given, both are searched for. If only one kind is
    given, the other is not. The environment (``OS_<GROUP>__<OPTION>``) overrides the files, and later files
    override earlier ones.

    Raises:
        ConfigError: a file is missing, unreadable or malformed, a value does not fit its option, or the connection is
            missing.
    """
    return settings_of(read_conf(files, dirs, program=program), data_dir)


def settings_of(conf: cfg.ConfigOpts, data_dir: Path | None = None) -> Settings:
    """The settings in *conf*, which :func:`read_conf` has read.

    The *embedded* mode applies only if no file and no directory was given or found and
    ``OS_PLACEMENT_DATABASE__CONNECTION`` is not in the environment. It stores data in SQLite in *data_dir*, creates
    tables at start, and uses ``token`` authentication unless ``OS_API__AUTH_STRATEGY`` is set.

    Raises:
        ConfigError: a value does not fit its option, or the connection is missing.
    """
    files_and_dirs = (
        tuple(Path(path) for path in conf.default_config_files),
        tuple(Path(path) for path in conf.default_config_dirs),
    )
    embedded = not any(files_and_dirs) and "OS_PLACEMENT_DATABASE__CONNECTION" not in os.environ
    if data_dir is not None and not embedded:
        raise ConfigError(
            f"data directory {data_dir} is for a service without a configuration, and "
            f"{_source(*files_and_dirs)} is one: leave out one of them"
        )
    if embedded:
        conf.set_default("auth_strategy", "token", group="api")
        conf.set_default("sync_on_startup", True, group="placement_database")
    # Only the embedded mode uses the directory. Other services may run as a user without a home directory.
    directory = resolve_data_dir(data_dir) if embedded else Path("/")
    try:
        return _settings(conf, *files_and_dirs, directory, embedded=embedded)
    except (cfg.Error, ValueError) as error:
        raise explained(
            conf, error, places_in(written_in(*files_and_dirs))
        ) from None  # its message may contain a secret


def _source(files: Sequence[Path], dirs: Sequence[Path]) -> str:
    """Where the configuration is from, for a message."""
    return str(next(iter([*files, *dirs]), "OS_PLACEMENT_DATABASE__CONNECTION"))


def read_conf(
    files: Sequence[Path] | None = None, dirs: Sequence[Path] | None = None, *, program: str | None = None
) -> cfg.ConfigOpts:
    """The options with their values, for libraries that require them; :func:`load` describes the sources.

    Raises:
        ConfigError: a file or directory is missing, unreadable or malformed, or the group ``stead`` has an option that
            does not exist. Values are checked when they are used.
    """
    if files is None and dirs is None:
        files, dirs = find_config_files(program), find_config_dirs(program)
    return read_into(MaskedOptions(), files or (), dirs or ())


def read_into(
    conf: cfg.ConfigOpts,
    files: Sequence[Path],
    dirs: Sequence[Path],
    arguments: Sequence[str] = (),
    *,
    dirs_named: bool = False,
    program: str = "placement",
    description: str | None = None,
    version: str | None = None,
) -> cfg.ConfigOpts:
    """*conf* with all options and their values from *files*, *dirs* and a command line, if any.

    Args:
        files, dirs: all files and directories to read, whether *arguments* name them or a search found them.
        dirs_named: whether *arguments* name the directories.

    Raises:
        ConfigError: as of :func:`read_conf`.
        SystemExit: wrong usage (2), or after ``--help`` and ``--version`` (0).
    """
    for directory in dirs:
        if not absolute(directory).is_dir():  # oslo.config would silently ignore it
            raise ConfigError(f"configuration directory {directory} does not exist")
    files, dirs = ([absolute(path) for path in paths] for paths in (files, dirs))
    options.register(conf)
    try:
        conf(
            # Pass directories as if typed: oslo.config does not search default directories for the policy files.
            args=[*([] if dirs_named else [f"--config-dir={path}" for path in dirs]), *arguments],
            project="placement",
            prog=program,
            description=description,
            version=version,
            default_config_files=[str(path) for path in files],  # read if the command line names none
            default_config_dirs=[str(path) for path in dirs],
        )
    except (cfg.Error, OSError, ValueError) as error:
        written_in(files, dirs)  # names the file, if one cannot be read
        raise explained(conf, error, {}) from None  # its message may contain a secret
    written = written_in(files, dirs)
    require_known(written)
    for doubt in doubts(written, names_of(conf)):
        _log.warning("%s", doubt)
    return conf


def _settings(
    conf: cfg.ConfigOpts, files: tuple[Path, ...], dirs: tuple[Path, ...], data_dir: Path, *, embedded: bool
) -> Settings:
    _require_usable(conf)
    strategy = cast("AuthStrategy", conf.api.auth_strategy)
    return Settings(
        database=_database(conf, data_dir if embedded else None),
        candidates=_candidates(conf),
        allocations=AllocationSettings(
            incomplete_project_id=conf.placement.incomplete_consumer_project_id,
            incomplete_user_id=conf.placement.incomplete_consumer_user_id,
        ),
        cors=CorsSettings(
            allowed_origins=tuple(conf.cors.allowed_origin or ()),
            allow_credentials=conf.cors.allow_credentials,
            expose_headers=tuple(conf.cors.expose_headers),
            max_age=conf.cors.max_age,
            allow_methods=tuple(conf.cors.allow_methods),
            allow_headers=tuple(conf.cors.allow_headers),
        ),
        request_limits=RequestLimits(
            body_size=conf.stead.max_body_size,
            query_length=conf.stead.max_query_length,
            groups=conf.stead.max_request_groups,
            suffix_length=conf.stead.max_suffix_length,
            allocations=conf.stead.max_allocations,
            claims=conf.stead.max_claims,
            lease=conf.stead.max_lease,
            tree_providers=conf.stead.max_tree_providers,
            answer_size=conf.stead.max_answer_size,
        ),
        limits=LimitSettings(
            candidate_work=conf.stead.max_candidate_work or None,
            concurrent_requests=conf.stead.max_concurrent_requests,
            watchers=conf.stead.max_watchers,
            watcher_threads=conf.stead.max_watcher_threads,
        ),
        http=HttpSettings(
            connections=conf.stead.max_connections,
            head_size=conf.stead.max_head_size,
            head_timeout=conf.stead.head_timeout,
            idle_timeout=conf.stead.idle_timeout,
            body_timeout=conf.stead.body_timeout,
            bodies_size=conf.stead.max_bodies_size,
            send_timeout=conf.stead.send_timeout,
            unsent_size=conf.stead.max_unsent_size,
            queue=conf.stead.max_queue,
            queue_per_client=conf.stead.max_queue_per_client,
            queue_timeout=conf.stead.queue_timeout,
            proxies=_networks(conf.stead.proxy_protocol_from),
            worker_timeout=conf.stead.worker_timeout,
        ),
        watch=WatchSettings(
            metrics=_metrics_address(conf.stead.metrics),
            metrics_dir=Path(conf.stead.metrics_directory).absolute() if conf.stead.metrics_directory else None,
            capacity=cast("CapacityMetrics", conf.stead.capacity_metrics),
            capacity_traits=tuple(conf.stead.capacity_traits),
            headroom=conf.stead.headroom_metrics,
            headroom_aggregates=_aggregates(conf.stead.headroom_aggregates),
            log_json=conf.stead.log_json,
            traces=conf.stead.traces,
        ),
        ui=ui_settings(conf, embedded=embedded),
        auth_strategy=strategy,
        token_file=_token_file(conf, strategy, data_dir if embedded else None),
        embedded=embedded,
        data_dir=data_dir,
        proxy_headers=conf.oslo_middleware.enable_proxy_headers_parsing,
        path_prefix=_path_prefix(conf.stead.path_prefix),
        compress_responses=conf.stead.compress_responses,
        config_files=files,
        config_dirs=dirs,
        conf=conf,
    )


def _require_usable(conf: cfg.ConfigOpts) -> None:
    """Read the log options now: oslo.config checks a value when it is read, and an error here can name its file."""
    _ = (conf.debug, conf.log_options, conf.placement_database.connection_debug)


def _database(conf: cfg.ConfigOpts, embedded_dir: Path | None) -> DatabaseSettings:
    group = conf.placement_database
    if embedded_dir is not None:
        url = URL.create("sqlite", database=str(embedded_dir / "stead.db")).render_as_string()
    elif group.connection:
        url = complete_url(group.connection, group.connection_parameters)
    else:
        raise ConfigError(
            "[placement_database] connection is required: set it in placement.conf or as "
            "OS_PLACEMENT_DATABASE__CONNECTION in the environment"
        )
    return DatabaseSettings(
        url=url,
        sync_on_startup=group.sync_on_startup,
        sqlite_synchronous=group.sqlite_synchronous,
        mysql_sql_mode=group.mysql_sql_mode or "",
        connection_recycle_time=group.connection_recycle_time,
        max_pool_size=group.max_pool_size,
        max_overflow=group.max_overflow,
        pool_timeout=group.pool_timeout,
        max_retries=group.max_retries,
        retry_interval=group.retry_interval,
        connection_trace=group.connection_trace,
        write_timeout=conf.stead.write_timeout,
        answer_timeout=conf.stead.answer_timeout,
        claim_timeout=conf.stead.claim_timeout,
        require_durable_commits=conf.stead.require_durable_commits,
        reconcile_interval=conf.stead.reconcile_interval,
        kept_changes=conf.stead.kept_changes,
        snapshot_file=_snapshot_file(conf.stead.snapshot_dir, url),
        snapshot_interval=conf.stead.snapshot_interval,
        expiry_interval=conf.stead.expiry_interval,
    )


def _snapshot_file(directory: str, url: str) -> Path | None:
    """One file for each database, so that several services can use one directory."""
    if not directory:
        return None
    database = hashlib.sha256(masked_url(url).encode()).hexdigest()[:16]
    return Path(directory).absolute() / f"{database}.snapshot"


def _candidates(conf: cfg.ConfigOpts) -> CandidateSettings:
    group = conf.placement
    maximum = group.max_allocation_candidates
    return CandidateSettings(
        randomize=group.randomize_allocation_candidates,
        maximum=None if maximum < 0 else maximum,
        breadth_first=group.allocation_candidates_generation_strategy == "breadth-first",
        order=None if conf.stead.default_order == "off" else conf.stead.default_order,
    )


def _metrics_address(text: str | None) -> tuple[str, int] | None:
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(f"[stead] metrics is a port, or an address and a port (127.0.0.1:9778), not {text}")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _networks(given: Sequence[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    try:
        return tuple(map(ip_network, given))
    except ValueError as error:
        raise ConfigError(
            f"[stead] proxy_protocol_from is addresses and networks, separated by commas: {error}"
        ) from error


def _aggregates(given: Mapping[str, str]) -> dict[str, str]:
    """The canonical uuid of each aggregate, by its label."""
    if len(given) > MOST_AGGREGATES:
        raise ConfigError(f"[stead] headroom_aggregates has at most {MOST_AGGREGATES} aggregates, not {len(given)}")
    aggregates = {}
    for label, uuid in given.items():
        try:
            aggregates[label] = str(UUID(uuid))
        except ValueError as error:
            raise ConfigError(
                f"[stead] headroom_aggregates is name:uuid, separated by commas, not {label}:{uuid}"
            ) from error
    return aggregates


def _path_prefix(text: str) -> str:
    prefix = text.rstrip("/")
    if prefix and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", prefix):
        raise ConfigError(f"[stead] path_prefix is a path that begins with a slash, as /placement, not {text}")
    return prefix


def _token_file(conf: cfg.ConfigOpts, strategy: AuthStrategy, embedded_dir: Path | None) -> Path | None:
    if conf.stead.token_file:
        return absolute(Path(conf.stead.token_file))
    if embedded_dir is not None:
        return embedded_dir / "tokens.json"
    if strategy == "token":
        raise ConfigError("[stead] token_file is required with auth_strategy `token`")
    return None


# The search paths of configuration files and data.


CONFIG_FILE_VARIABLE = "STEAD_CONFIG_FILE"
CONFIG_DIR_VARIABLE = "STEAD_CONFIG_DIR"
DATA_DIR_VARIABLE = "STEAD_DATA_DIR"
UPSTREAM_DIR_VARIABLE = "OS_PLACEMENT_CONFIG_DIR"
CONFIG_NAME = "placement.conf"


def resolve_data_dir(chosen: Path | None = None) -> Path:
    """Absolute path of the data directory of the embedded mode; it need not exist.

    The first that is set of: *chosen* (``--data-dir``), ``STEAD_DATA_DIR``, the user's data directory.

    Raises:
        ConfigError: the user has no home directory.
    """
    if chosen is None and (named := os.environ.get(DATA_DIR_VARIABLE)):
        chosen = Path(named)
    if chosen is not None:
        return absolute(chosen)
    try:
        return user_data_path("stead").absolute()
    except RuntimeError as error:
        raise ConfigError(
            f"this user has no home directory for data: use --data-dir, or set {DATA_DIR_VARIABLE} or HOME"
        ) from error


def absolute(path: Path) -> Path:
    """The absolute form of *path*, which may begin with ``~``.

    Raises:
        ConfigError: it does, and there is no such home directory.
    """
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError(f"{path}: no such home directory; set HOME, or give an absolute path") from error


def serving_program() -> str | None:
    """The program that runs the service (``uwsgi``, ``mod_wsgi``), in oslo.config's spelling; None for ``stead serve``.

    The main process of ``stead serve`` passes its configuration files to the workers, and searches for none named after
    a program.
    """
    name = Path(sys.argv[0]).name.removesuffix(".py") if sys.argv else ""
    return name if name not in ("", "stead") else None


def find_config_files(program: str | None = None, *, by_variable: bool = True) -> list[Path]:
    """The configuration files to read when the command line names none; empty if there is none.

    ``STEAD_CONFIG_FILE`` and ``STEAD_CONFIG_DIR`` (several paths, separated by ``:``) come first; if one is set, only
    these two apply. Next comes ``placement.conf`` in ``OS_PLACEMENT_CONFIG_DIR``. A file that a variable names is
    returned even if it does not exist, so that a typing error is reported later. Otherwise the result is the first
    ``placement.conf`` in oslo.config's usual places, then the first file there with the name of *program*.

    Args:
        by_variable: whether ``OS_PLACEMENT_CONFIG_DIR`` applies.

    Raises:
        ConfigError: one of the usual places cannot be searched, so that a file there might be missed.
    """
    if _named(CONFIG_FILE_VARIABLE) or _named(CONFIG_DIR_VARIABLE):
        return _named(CONFIG_FILE_VARIABLE)
    if by_variable and (directory := os.environ.get(UPSTREAM_DIR_VARIABLE)):
        return [Path(directory) / CONFIG_NAME]
    return [path for name in _names(program) for path in _first_existing(name)]


def find_config_dirs(program: str | None = None) -> list[Path]:
    """The directories of ``*.conf`` files to read when the command line names none.

    ``STEAD_CONFIG_DIR``, if it or ``STEAD_CONFIG_FILE`` is set. Otherwise the first ``placement.conf.d`` in the usual
    places, and the first such directory of *program*, even if ``OS_PLACEMENT_CONFIG_DIR`` names the file.

    Raises:
        ConfigError: as of :func:`find_config_files`.
    """
    if _named(CONFIG_FILE_VARIABLE) or _named(CONFIG_DIR_VARIABLE):
        return _named(CONFIG_DIR_VARIABLE)
    return [path for name in _names(program) for path in _first_existing(name + ".d")]


def _names(program: str | None) -> list[str]:
    return [CONFIG_NAME, *([f"{program}.conf"] if program else [])]


def _named(variable: str) -> list[Path]:
    return [Path(name) for name in os.environ.get(variable, "").split(os.pathsep) if name]


def _first_existing(name: str) -> list[Path]:
    for directory in _usual_places():
        candidate = directory / name
        try:
            candidate.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ConfigError(f"cannot tell whether {candidate} exists: {error.strerror}") from error
        return [candidate]
    return []


def _usual_places() -> list[Path]:
    """oslo.config's places for the project ``placement``, in order; a user may have no home directory."""
    try:
        home = Path.home()
    except RuntimeError:
        return [Path("/etc/placement"), Path("/etc")]
    return [home / ".placement", home, Path("/etc/placement"), Path("/etc")]


# Reads the configuration of the commands of an existing deployment, whose command line is part of it.


def read_command_line(
    arguments: Sequence[str], *, program: str, description: str, version: str, commands: cfg.SubCommandOpt
) -> cfg.ConfigOpts:
    """The options with their values from the command line of *program*, from files and the environment.

    The command line may have options of oslo.config and oslo.log, then one of *commands*. The files that it names are
    read in its order. If it names no file, the usual files are read; likewise for directories.

    Raises:
        ConfigError: a file or directory is missing, unreadable or malformed.
        SystemExit: wrong usage (2), or after ``--help`` and ``--version`` (0).
    """
    conf = MaskedOptions()
    conf.register_cli_opt(commands)
    named, _ = _parted(arguments)
    return read_into(
        conf,
        named.config_file or find_config_files(program, by_variable=False),
        named.config_dir or find_config_dirs(program),
        arguments,
        dirs_named=bool(named.config_dir),
        program=program,
        description=description,
        version=version,
    )


def said_of_log(arguments: Sequence[str], commands: cfg.SubCommandOpt) -> set[str]:
    """The oslo.log options on a valid command line, under the names that they have in files."""
    conf = cfg.ConfigOpts()  # without files: if both set an option, oslo.config reports only one of the places
    log.register_options(conf)
    ours = set(conf)
    conf.register_cli_opt(commands)
    conf(_parted(arguments)[1], project="placement", default_config_files=[], default_config_dirs=[], use_env=False)
    return {name for name in ours if _is_said(conf, name)}


def _is_said(conf: cfg.ConfigOpts, name: str) -> bool:
    where = conf.get_location(name)
    return where is not None and where.location is cfg.Locations.command_line


def _parted(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Split a command line into configuration files and directories, and all other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config-file", type=Path, action="append", default=[])
    parser.add_argument("--config-dir", type=Path, action="append", default=[])
    with suppress(argparse.ArgumentError):  # for an option without its value, oslo.config prints the usage
        return parser.parse_known_args(arguments)
    return argparse.Namespace(config_file=[], config_dir=[]), [*arguments]
