"""``stead doctor``: everything that an operator would check by hand, on one page, with a cure for each finding."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer

from stead.cli.arguments import chosen_data_dir, options
from stead.cli.errors import NO, CommandError
from stead.cli.local.db import ConfigDir, ConfigFile, open_store
from stead.cli.server import running, trusting_only
from stead.cli.terminal import line_width, print_json, show_lines, wrapped
from stead.cli.text import Text
from stead.printing import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.cli.server import Running
    from stead.config import Settings
    from stead.store.protocol.store import Store

app = typer.Typer(add_completion=False)

_CLOCK_SECONDS = 2.0
_LAG_SECONDS = 5.0
_ANSWER_SECONDS = 5.0
_LEAST_FREE = 0.1  # of the disk
_DAYS = 30
_SUBJECT = 15  # cells


class State(StrEnum):
    """What a finding means. A problem makes the exit code 1."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Symptom:
    """A line of the page: *cure* says what to do, and is empty if nothing has to be done."""

    subject: str
    state: State
    text: str
    cure: str = ""


@app.command()
def doctor(config_file: ConfigFile = None, config_dir: ConfigDir = None) -> int:
    """Check the configuration, the policy, the database, certificates and the running server, with a cure per finding.

    Nothing is changed. Exit code 1: something prevents the service from working, or endangers its data.
    """
    from stead.observe.log import silenced

    with silenced("oslo_config", "stead.config"):  # what they log is among the findings
        symptoms = list(_examine(config_file, config_dir))
    if options().json:
        print_json(
            {
                "healthy": not any(each.state is State.PROBLEM for each in symptoms),
                "findings": [
                    {"subject": each.subject, "state": each.state.value, "text": each.text, "cure": each.cure}
                    for each in symptoms
                ],
            }
        )
    else:
        show_lines(draw_symptoms(symptoms, line_width()))
    return NO if any(each.state is State.PROBLEM for each in symptoms) else 0


def draw_symptoms(symptoms: Sequence[Symptom], width: int) -> Iterator[Text]:
    """The verdict, then a line for each of *symptoms* with its cure below; none longer than *width* cells."""
    problems = sum(each.state is State.PROBLEM for each in symptoms)
    warnings = sum(each.state is State.WARNING for each in symptoms)
    verdict = f"{problems} {'problem' if problems == 1 else 'problems'}, " if problems else "healthy, "
    verdict += f"{warnings} {'warning' if warnings == 1 else 'warnings'}"
    yield Text(verdict, style="bold red" if problems else "bold")
    yield Text()
    styles = {State.OK: "green", State.WARNING: "yellow", State.PROBLEM: "red"}
    for each in symptoms:
        state = each.state.ljust(9), styles[each.state]
        line = Text.assemble(state, each.subject.ljust(_SUBJECT), printable(each.text))
        yield from wrapped(line, width, min(9 + _SUBJECT, width // 2))
        if each.cure:
            yield from wrapped(Text(f"{' ' * 9}→ {printable(each.cure)}", style="dim"), width, 11)


def _examine(config_file: list[Path] | None, config_dir: list[Path] | None) -> Iterator[Symptom]:
    from stead.config import ConfigError, read_conf, settings_of
    from stead.config.report import report

    try:
        conf = read_conf(config_file or None, config_dir or None)
        told = report(conf, chosen_data_dir())
    except ConfigError as error:
        yield Symptom("configuration", State.PROBLEM, str(error), "Correct it; `stead config sample` has all options.")
        return
    for problem in told.problems:
        yield Symptom("configuration", State.PROBLEM, problem, "Correct it; `stead config show` has all values.")
    for option in told.ignored:
        where = f"unknown option [{option.group}] {option.name} ({option.place})"
        yield Symptom("configuration", State.WARNING, where, "Correct its name, or remove it: it has no effect.")
    if told.problems:
        return
    settings = settings_of(conf, chosen_data_dir())
    if not told.ignored:
        files = ", ".join(str(path) for path in (*settings.config_files, *settings.config_dirs))
        yield Symptom("configuration", State.OK, files or f"none: embedded, in {settings.data_dir}")
    yield from _policy(settings)
    yield from _database(settings, config_file, config_dir)
    yield from _server(settings)


def _policy(settings: Settings) -> Iterator[Symptom]:
    from stead.auth.policy import Policy
    from stead.config import ConfigError

    try:
        Policy(settings.conf)
    except ConfigError as error:
        yield Symptom("policy", State.PROBLEM, str(error), "Correct the file; the service does not start with it.")
    else:
        yield Symptom("policy", State.OK, "the rules can be read")


def _database(settings: Settings, config_file: list[Path] | None, config_dir: list[Path] | None) -> Iterator[Symptom]:
    if settings.embedded and not settings.data_dir.is_dir():
        yield Symptom("database", State.WARNING, f"{settings.data_dir} does not exist", "`stead serve` creates it.")
        return
    try:
        with open_store(config_file, config_dir) as store:
            yield from _of_connection(store)
            yield from _of_tables(store)
    except CommandError as error:
        cure = "Start the database, or correct [placement_database] connection."
        yield Symptom("database", State.PROBLEM, str(error), cure)
    path = _directory_of(settings)
    if path is not None and path.is_dir():
        usage = shutil.disk_usage(path)
        text = f"{usage.free / 1024**3:,.1f} GiB free of {usage.total / 1024**3:,.1f} GiB at {path}"
        is_full = usage.free < usage.total * _LEAST_FREE
        yield Symptom("disk", State.WARNING if is_full else State.OK, text, "Free space before it is full." * is_full)


def _directory_of(settings: Settings) -> Path | None:
    """The directory of the database, if it is on this machine and can be known."""
    if settings.embedded:
        return settings.data_dir
    file = settings.database.file
    return None if file is None else file.parent


def _of_connection(store: Store) -> Iterator[Symptom]:
    from sqlalchemy import select

    engine = store.writer
    with engine.connect() as connection:
        version = ".".join(map(str, engine.dialect.server_version_info or ()))
        product = store.dialect.product(connection)
        yield Symptom("database", State.OK, f"{product} {version} through {engine.dialect.driver}")
        for weakness in store.dialect.weaknesses(connection):
            cure = f"Set {weakness.setting} to {weakness.required} on the database server."
            yield Symptom("durability", State.PROBLEM, str(weakness), cure)
        before = time.time()
        now = select(store.dialect.seconds(store.dialect.now()))
        theirs = int(connection.execute(now).scalar_one()) + 0.5  # of the second that it is in
        ours = (before + time.time()) / 2
    difference = theirs - ours
    words = f"the database's is {difference:+.1f} s from this machine's"
    is_far = abs(difference) > _CLOCK_SECONDS
    yield Symptom("clock", State.WARNING if is_far else State.OK, words, "Run chrony or ntpd on both." * is_far)


def _of_tables(store: Store) -> Iterator[Symptom]:
    from stead.store.audit import checks
    from stead.store.schema import adoption

    findings = adoption.examine(store.writer)
    for objection in findings.objections:
        yield Symptom("tables", State.PROBLEM, objection, "`stead db check` has all of them.")
    if findings.pending:
        steps = f"{len(findings.pending)} revisions are missing, such as {findings.pending[0].revision}"
        yield Symptom("tables", State.PROBLEM, steps, "Run `stead db upgrade`.")
    elif not findings.objections:
        yield Symptom("tables", State.OK, "all revisions are there")
    if not findings.has_readable_rows:
        return
    faults = store.read(checks.audit, lambda _done, _all: None)
    for fault, group in groupby(faults, key=lambda fault: fault.fault):
        first, *others = group
        rows = f"{fault.value.meaning} ({len(others) + 1}), such as {first.subject}: {first.detail}"
        cure = "Run `stead audit --repair`." if fault.value.is_repaired else "Run `stead audit`, which says more."
        yield Symptom("rows", State.WARNING, rows, cure)
    if not faults:
        yield Symptom("rows", State.OK, "no orphans, no faulty rows")


def _server(settings: Settings) -> Iterator[Symptom]:
    server: Running | None = None
    if settings.embedded:
        try:
            server = running(settings.data_dir)
        except CommandError as error:
            yield Symptom("server", State.PROBLEM, str(error), "Wait, or restart it.")
            return
        if server is None:
            start = f"stead --data-dir {quote(str(settings.data_dir))} serve"
            yield Symptom("server", State.WARNING, "none runs on the data directory", f"Start one: `{start}`.")
            return
    if server is not None and server.url.startswith("http"):
        yield _readiness(server)
        if server.certificate is not None:
            yield _certificate(server)
    yield from _workers(settings, server)


def _readiness(server: Running) -> Symptom:
    try:
        answer = json.loads(_fetched(server.url + "/healthcheck/ready", server))
    except (OSError, ValueError) as error:
        return Symptom("server", State.PROBLEM, f"{server.url} is not ready: {error}", "Read its log, or restart it.")
    warning = answer.get("warning")
    if warning is not None:
        return Symptom("server", State.WARNING, f"{server.url}: {warning}", "Read its log.")
    return Symptom("server", State.OK, f"{server.url} is ready (process {server.pid})")


def _certificate(server: Running) -> Symptom:
    import socket
    import ssl
    from urllib.parse import urlsplit

    address = urlsplit(server.url)
    try:
        with (
            socket.create_connection((address.hostname or "", address.port or 443), _ANSWER_SECONDS) as plain,
            trusting_only(server.certificate or Path()).wrap_socket(plain) as secure,
        ):
            ends = ssl.cert_time_to_seconds(str((secure.getpeercert() or {})["notAfter"]))
    except (OSError, CommandError, KeyError) as error:  # an SSLError is an OSError
        failed = one_line(f"{server.certificate}: {error}")
        return Symptom("certificate", State.PROBLEM, failed, "Replace it, and send SIGHUP to the server.")
    days = int((ends - time.time()) // 86400)
    text = f"{server.certificate} is valid for {days:,} more days"
    if days >= _DAYS:
        return Symptom("certificate", State.OK, text)
    return Symptom("certificate", State.WARNING, text, "Replace it, and send SIGHUP to the server.")


def _workers(settings: Settings, server: Running | None) -> Iterator[Symptom]:
    """The lag of each worker's snapshot, from the metrics: a health check is answered by one of the workers only."""
    url = _metrics(settings) if server is None else server.metrics
    if url is None:
        how = "the option [stead] metrics" if server is None else "`stead serve --metrics 9100`"
        yield Symptom("workers", State.OK, f"lag not checked: only the metrics have that of each; {how} enables them")
        return
    try:
        lines = _fetched(url, None).splitlines()
    except OSError as error:
        yield Symptom("workers", State.WARNING, f"{url}: {error}", "Start the service, or correct [stead] metrics.")
        return
    lags = [float(line.rpartition(" ")[2]) for line in lines if line.startswith("stead_catalog_lag_seconds{")]
    counted = "1 worker" if len(lags) == 1 else f"{len(lags)} workers"
    text = f"{counted}, whose snapshots are up to {max(lags, default=0):.1f} s old"
    if lags and max(lags) <= _LAG_SECONDS:
        yield Symptom("workers", State.OK, text)
    else:
        yield Symptom("workers", State.PROBLEM, text, "Read the log: the database does not answer, or a worker hangs.")


def _metrics(settings: Settings) -> str | None:
    if settings.watch.metrics is None:
        return None
    host, port = settings.watch.metrics
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"


def _fetched(url: str, server: Running | None) -> str:
    """The body of a response of 200.

    Raises:
        OSError: there is none.
    """
    from urllib.request import HTTPSHandler, build_opener

    certificate = server and server.certificate
    handlers = [HTTPSHandler(context=trusting_only(certificate))] if certificate else []
    with build_opener(*handlers).open(url, timeout=_ANSWER_SECONDS) as response:
        body: bytes = response.read()
    return body.decode(errors="replace")
