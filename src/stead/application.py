"""The whole application, put together from settings: alone knows everyone."""

from __future__ import annotations

import itertools
import logging
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypeVar

from stead.api.app import create_app
from stead.api.limits import Limits
from stead.api.middleware import (
    Compression,
    Concurrency,
    Cors,
    Drain,
    HeaderSizes,
    Health,
    Prefix,
    ProxyHeaders,
    RequestLog,
    Slices,
)
from stead.auth import Policy, authenticate
from stead.candidates.engine import Enumeration
from stead.config import load
from stead.config.paths import serving_program
from stead.domain.errors import Unavailable
from stead.observation import Observation, set_up_log
from stead.observe.health import Readiness
from stead.observe.log import held_back
from stead.process import turns
from stead.process.memory import keep_for_good, keep_freed
from stead.service.service import Service
from stead.store.protocol import durability
from stead.store.protocol.transaction import Store
from stead.store.schema import schema
from stead.store.sql.dialects import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.config import DatabaseSettings, Settings
    from stead.httpd.server import Server

_log = logging.getLogger(__name__)

R = TypeVar("R")


class Application:
    """The WSGI application of one process."""

    def __init__(self, app: WSGIApplication, observation: Observation) -> None:
        """*observation* watches *app* already."""
        self._app = app
        self._observation = observation

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self._app(environ, start_response)

    def watch_server(self, server: Server) -> None:
        """Show the metrics of *server*, which serves this. Other WSGI servers have none."""
        self._observation.watch_server(server)


def init_application() -> Application:
    """The application as the configuration of this machine has it, for WSGI files that make it themselves.

    Raises:
        ConfigError: the configuration can not be used.
        NotWritable, NotDurable, SchemaOutdated, SchemaTooNew, Unavailable: as :func:`build_application`.
    """
    with held_back("oslo_config"):
        return build_application(load(program=serving_program()))


def build_application(settings: Settings) -> Application:
    """The application, with its database checked and loaded.

    Raises:
        ConfigError: the settings can not work.
        NotWritable, NotDurable: the database can not keep the promises.
        SchemaOutdated: it lacks tables, and is not to be changed at start.
        Unavailable: the database does not answer.
    """
    observation = Observation(settings)
    set_up_log(settings)
    prepare_process()
    service = build_service(settings, observation)
    observation.start(service)
    app = Application(assemble(service, settings, observation), observation)
    keep_for_good()
    return app


def prepare_process() -> None:
    """Set what holds for the whole process: nobody is kept waiting for its memory or for the interpreter."""
    keep_freed()
    turns.share()


def assemble(service: Service, settings: Settings, observation: Observation | None = None) -> WSGIApplication:
    """The application over a service that has started; *observation* is told of its requests.

    Raises:
        ConfigError: the settings can not work.
    """
    most = settings.limits
    api = create_app(
        service,
        Policy(settings.conf),
        incomplete_project=settings.allocations.incomplete_project_id,
        incomplete_user=settings.allocations.incomplete_user_id,
        limits=Limits(
            body=most.body_size,
            query=most.query_length,
            groups=most.request_groups,
            suffix=most.suffix_length,
            allocations=most.allocations,
            claims=most.claims,
        ),
    )
    watchers = observation.watchers if observation else ()
    app: WSGIApplication = RequestLog(HeaderSizes(_surrounded(authenticate(api, settings), settings)), watchers)
    app = Health(app, _readiness(service).problem)
    if settings.proxy_headers:
        app = ProxyHeaders(app)
    if settings.path_prefix:
        app = Prefix(app, settings.path_prefix)
    return Drain(Slices(app), most.body_size)


def _readiness(service: Service) -> Readiness:
    def refresh() -> None:
        service.snapshot()
        service.require_writes()

    return Readiness(lambda: service.lag if service.is_known_to_write else inf, refresh)


def _surrounded(app: WSGIApplication, settings: Settings) -> WSGIApplication:
    """*app* inside what sees a request before anybody knows who asks."""
    if settings.limits.concurrent_requests:
        app = Concurrency(app, settings.limits.concurrent_requests)
    cors = settings.cors
    if cors.allowed_origins:
        app = Cors(
            app,
            origins=cors.allowed_origins,
            allow_credentials=cors.allow_credentials,
            expose_headers=cors.expose_headers,
            max_age=cors.max_age,
            allow_methods=cors.allow_methods,
            allow_headers=cors.allow_headers,
        )
    return Compression(app) if settings.compress_responses else app


def build_service(settings: Settings, observation: Observation | None = None) -> Service:
    """The service on its database, checked and loaded; a database that does not answer is waited for.

    Args:
        observation: is told what happens in it.

    Raises:
        NotWritable, NotDurable, SchemaOutdated, Unavailable
    """
    return _patiently(settings.database, lambda: _started_service(settings, observation))


def open_store(settings: DatabaseSettings) -> Store:
    """A store whose schema is ready; a database that does not answer is waited for, as the settings say.

    Raises:
        NotWritable: the database takes no writes.
        NotDurable: its settings do not keep what is acknowledged, and the operator demands it.
        SchemaOutdated: it is not at its heads, and is not to be changed at start.
        Unavailable: it did not answer in time.
    """
    return _patiently(settings, lambda: _ready_store(settings))


def _patiently(settings: DatabaseSettings, attempt: Callable[[], R]) -> R:
    """What *attempt* returns; where the database fails, it is made anew after a while, as often as the settings say."""
    for retries in itertools.count():
        try:
            return attempt()
        except Unavailable as error:
            if retries == settings.max_retries:
                raise
            _log.warning("%s; next attempt in %d s", error, settings.retry_interval)
            time.sleep(settings.retry_interval)
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
        durability.check(store.writer, required=settings.require_durable_commits)
        with closing(Store(patient)) as preparing:  # which may take long
            schema.prepare(preparing.writer, may_upgrade=settings.sync_on_startup)
        undoing.pop_all()
        return store


def _started_service(settings: Settings, observation: Observation | None) -> Service:
    with ExitStack() as undoing:
        enumeration = Enumeration(
            breadth_first=settings.candidates.breadth_first,
            randomize=settings.candidates.randomize,
            maximum=settings.candidates.maximum,
            work=settings.limits.candidate_work,
        )
        store = _ready_store(settings.database, observation)
        on_refresh = observation.refreshed if observation else None
        service = Service(
            store,
            enumeration,
            on_refresh,
            watchers=settings.limits.watchers,
            watcher_threads=settings.limits.watcher_threads,
        )
        undoing.callback(service.close)
        service.start()
        service.keep_up(settings.database.reconcile_interval, settings.database.kept_changes)
        undoing.pop_all()
        return service


def database_of(settings: DatabaseSettings) -> Database:
    """What the store needs to know to reach the database; its answers may take as long as they like."""
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
