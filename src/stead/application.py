"""The whole application, assembled from settings. This module alone imports all the packages.

It imports the API, the engine and the service where they are used: the main process of ``stead serve`` and the commands
for databases open a store only, and to import all the rest takes twice as long as that.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypeVar

from stead import __version__
from stead.config import load
from stead.config.masking import mask_of
from stead.config.settings import HOSTS_OPTION, serving_program
from stead.config.values import ConfigError
from stead.domain.errors import Unavailable, Unusable
from stead.observe import log
from stead.store.protocol.store import Store
from stead.store.schema import schema
from stead.store.sql import dialects
from stead.store.sql.dialects import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.auth.policy import Policy
    from stead.config import DatabaseSettings, Settings
    from stead.domain.limits import RequestLimits
    from stead.observation import Observation
    from stead.observe.health import Readiness
    from stead.service.service import Service
    from wsgi_lanes.server import Server

_log = logging.getLogger(__name__)

R = TypeVar("R")


class Application:
    """The WSGI application of one process."""

    def __init__(self, app: WSGIApplication, observation: Observation) -> None:
        """*observation* already observes *app*."""
        self._app = app
        self._observation = observation

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self._app(environ, start_response)

    def watch_server(self, server: Server) -> None:
        """Export the metrics of *server*, which runs this application. Other WSGI servers have none."""
        self._observation.watch_server(server)


def init_application() -> Application:
    """The application as this machine's configuration files describe it, for WSGI files that create it themselves.

    Raises:
        ConfigError: the configuration cannot be used.
        NotWritable, NotDurable, SchemaOutdated, SchemaTooNew, Unavailable: as :func:`build_application`.
    """
    with log.held_back("oslo_config", "stead.config"):
        return build_application(load(program=serving_program()))


def build_application(settings: Settings) -> Application:
    """The application, after checking the database and loading the catalog from it.

    Raises:
        ConfigError: the settings cannot be used.
        NotWritable, NotDurable: the database rejects writes, or does not commit durably.
        SchemaOutdated: tables are missing, and the settings forbid upgrading them at start.
        Unavailable: the database does not answer.
    """
    from stead.api.query.candidates import stored_request
    from stead.observation import Observation
    from stead.process.runtime import keep_for_good

    observation = Observation(settings)
    set_up_log(settings)
    prepare_process()
    service = build_service(settings, observation)
    observation.start(service, stored_request)
    process = os.getpid()  # a forked child inherits the registration
    atexit.register(lambda: service.store_snapshot() if os.getpid() == process else None)
    app = Application(assemble(service, settings, observation), observation)
    keep_for_good()
    return app


def set_up_log(settings: Settings) -> None:
    """Configure the logging of this process.

    Raises:
        ConfigError: the log options cannot be applied.
    """
    try:
        log.set_up(
            settings.conf,
            json_lines=settings.watch.log_json,
            version=__version__,
            mask=mask_of(settings.conf),
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error


def prepare_process() -> None:
    """Apply the settings of the whole process that keep pauses short: memory, collector and switch interval."""
    from stead.process import runtime
    from stead.process.runtime import keep_freed

    keep_freed()
    runtime.share()


def assemble(
    service: Service, settings: Settings, observation: Observation | None = None, policy: Policy | None = None
) -> WSGIApplication:
    """The application over a *service* that has started; it reports its requests to *observation*.

    Args:
        policy: None: that of the settings. It is imported here only, since oslo.policy takes long.

    Raises:
        ConfigError: the settings cannot be used.
    """
    from stead.api.app import create_app
    from stead.api.middleware import (
        Compression,
        Concurrency,
        Cors,
        Drain,
        HeaderSizes,
        Health,
        KnownHosts,
        Prefix,
        ProxyHeaders,
        RequestLog,
        Slices,
    )
    from stead.auth.authentication import authenticate
    from wsgi_lanes.hosts import Hosts

    limits, cors, ui = settings.request_limits, settings.cors, settings.ui
    if policy is None:
        from stead.auth.policy import Policy

        policy = Policy(settings.conf)
    api = create_app(
        service,
        policy,
        incomplete_project=settings.allocations.incomplete_project_id,
        incomplete_user=settings.allocations.incomplete_user_id,
        limits=limits,
    )
    # The layers that a request passes, in this order: whether the settings want the layer, and the layer.
    layers: list[tuple[object, Callable[[WSGIApplication], WSGIApplication]]] = [
        # First, since it also follows refusals: an unread body would be the next request of the connection.
        (True, lambda app: Drain(app, limits.body_size)),
        # Before everything that computes.
        (True, Slices),
        # Before everything that reads the path, the scheme, or the address of the client.
        (settings.path_prefix, lambda app: Prefix(app, settings.path_prefix)),
        (settings.proxy_headers, ProxyHeaders),
        # Before the log, since probes arrive every few seconds, and before the limits, since they must get an answer.
        (True, lambda app: Health(app, _readiness(service).problem)),
        # Around everything that refuses requests, so that refusals are logged and counted too.
        (True, lambda app: RequestLog(app, observation.watchers if observation else ())),
        # Before everything that parses a header.
        (True, HeaderSizes),
        # Before authentication, since a browser has a session and no token. It answers its own paths only.
        (
            ui.enabled or ui.public_docs,
            lambda app: _with_ui(app, api, service, policy, settings, limits, observation),
        ),
        # With noauth2, a page of another site needs no token that it cannot know.
        (
            settings.auth_strategy == "noauth2",
            lambda app: KnownHosts(app, Hosts(ui.hosts, settings.proxy_headers, HOSTS_OPTION)),
        ),
        # Around all that answers clients of the API, also with a refusal.
        (settings.compress_responses, Compression),
        (
            cors.allowed_origins,
            lambda app: Cors(
                app,
                origins=cors.allowed_origins,
                allow_credentials=cors.allow_credentials,
                expose_headers=cors.expose_headers,
                max_age=cors.max_age,
                allow_methods=cors.allow_methods,
                allow_headers=cors.allow_headers,
            ),
        ),
        # Before authentication, which may wait for Keystone.
        (settings.limits.concurrent_requests, lambda app: Concurrency(app, settings.limits.concurrent_requests)),
        (True, lambda app: authenticate(app, settings)),
    ]
    app: WSGIApplication = api
    for is_wanted, layer in reversed(layers):
        if is_wanted:
            app = layer(app)
    return app


def _with_ui(
    app: WSGIApplication,
    api: WSGIApplication,
    service: Service,
    policy: Policy,
    settings: Settings,
    limits: RequestLimits,
    observation: Observation | None,
) -> WSGIApplication:
    from stead.auth.attempts import Attempts
    from stead.auth.authentication import authenticate, strategy_of
    from stead.ui.app import Features, with_ui
    from stead.ui.pages.activity import Counts
    from wsgi_lanes.hosts import Hosts

    ui = settings.ui
    counts = Counts(observation.activity_counts.done, observation.all_workers) if observation else None
    return with_ui(
        app,
        api,
        service,
        policy,
        strategy_of(settings),
        lambda pages: authenticate(pages, settings),
        Features(
            ui.enabled, ui.writes, ui.public_docs, Hosts(ui.hosts, settings.proxy_headers, HOSTS_OPTION), ui.aliases
        ),
        limits,
        counts,
        Attempts(observation.signed_in) if observation else Attempts(),
    )


def _readiness(service: Service) -> Readiness:
    from stead.observe.health import Readiness

    def refresh() -> None:
        service.reach()
        service.require_writes()

    return Readiness(lambda: service.lag if service.is_known_to_write else inf, refresh)


def build_service(settings: Settings, observation: Observation | None = None) -> Service:
    """The service, after checking the database and loading the catalog. Retries while the database does not answer.

    Args:
        observation: receives the events of the service.

    Raises:
        NotWritable, NotDurable, SchemaOutdated, Unavailable
    """
    return _patiently(settings.database, lambda: _started_service(settings, observation))


def open_store(settings: DatabaseSettings) -> Store:
    """A store whose schema is ready. Retries while the database does not answer, as often as the settings say.

    Raises:
        NotWritable: the database rejects writes.
        NotDurable: the database may lose acknowledged commits, and the settings require durable commits.
        SchemaOutdated: the schema is not at its heads, and the settings forbid upgrading it at start.
        Unavailable: the database did not answer in time.
    """
    return _patiently(settings, lambda: _ready_store(settings))


def _patiently(settings: DatabaseSettings, attempt: Callable[[], R]) -> R:
    """The result of *attempt*. If the database fails, retry after a pause, up to the number in the settings.

    Raises:
        Unusable: at once.
        Unavailable: it still failed in the last attempt.
    """
    began = time.monotonic()
    for retries in itertools.count():
        try:
            result = attempt()
        except Unusable:
            raise
        except Unavailable as error:
            if retries == settings.max_retries:
                raise
            _log.warning("%s; next attempt in %d s", error, settings.retry_interval)
            time.sleep(settings.retry_interval)
        else:
            if retries:
                _log.info("the database answers, after %.0f s", time.monotonic() - began)
            return result
    raise AssertionError("counting does not end")


def _ready_store(settings: DatabaseSettings, observation: Observation | None = None) -> Store:
    patient = database_of(settings)
    with ExitStack() as undoing:
        store = Store(
            replace(patient, answer_timeout=settings.answer_timeout),
            write_timeout=settings.write_timeout,
            claim_timeout=settings.claim_timeout,
            on_retry=observation.retried if observation else None,
        )
        undoing.callback(store.close)
        dialects.check(store.writer, required=settings.require_durable_commits)
        with closing(Store(patient)) as preparing:  # no statement timeout: an upgrade may take long
            schema.prepare(preparing.writer, may_upgrade=settings.sync_on_startup)
        undoing.pop_all()
        return store


def _started_service(settings: Settings, observation: Observation | None) -> Service:
    from stead.api.query.candidates import parse_order, stored_request, usual_query
    from stead.api.versions import ALL_FEATURES
    from stead.candidates.engine import Enumeration
    from stead.service.service import Service

    with ExitStack() as undoing:
        enumeration = Enumeration(
            breadth_first=settings.candidates.breadth_first,
            randomize=settings.candidates.randomize,
            maximum=settings.candidates.maximum,
            work=settings.limits.candidate_work,
            answer_size=settings.request_limits.answer_size,
            order=parse_order(settings.candidates.order, ALL_FEATURES),
        )
        store = _ready_store(settings.database, observation)
        on_refresh = observation.refreshed if observation else None
        service = Service(
            store,
            enumeration,
            on_refresh,
            watchers=settings.limits.watchers,
            watcher_threads=settings.limits.watcher_threads,
            snapshot_file=settings.database.snapshot_file,
            snapshot_interval=settings.database.snapshot_interval,
            request_of=stored_request,
            query_of=usual_query,
            expiry_interval=settings.database.expiry_interval,
            on_lease_end=observation.leases_ended if observation else None,
        )
        undoing.callback(service.close)
        service.start()
        service.keep_up(settings.database.reconcile_interval, settings.database.kept_changes)
        undoing.pop_all()
        return service


def database_of(settings: DatabaseSettings) -> Database:
    """The database of the settings, without a statement timeout."""
    return Database(
        settings.url,
        max_pool_size=settings.max_pool_size,
        max_overflow=settings.max_overflow,
        pool_timeout=settings.pool_timeout,
        connection_recycle_time=settings.connection_recycle_time,
        sqlite_synchronous=settings.sqlite_synchronous,
        mysql_sql_mode=settings.mysql_sql_mode,
        names_places=settings.connection_trace,
    )
