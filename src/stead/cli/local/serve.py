"""``stead serve``: run the service."""

from __future__ import annotations

import json
import logging
import os
import socket as socket_module
from contextlib import ExitStack, contextmanager
from pathlib import Path  # noqa: TC003  # Typer reads it
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from stead.cli.arguments import chosen_data_dir, options
from stead.cli.errors import CommandError
from stead.cli.server import Address, NotServed, UnixAddress, occupied
from stead.serve.main_process import MainProcess, WorkersFailed
from stead.serve.worker import TlsFiles, UnusableFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.cli.server import Occupation
    from stead.config import Settings

app = typer.Typer(add_completion=False)

_log = logging.getLogger(__name__)


@app.command("serve")
def run(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8778,
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes. Each uses about one core.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Number of threads per worker, one per running request.")] = 8,
    config_file: Annotated[
        list[Path] | None, typer.Option(help="Configuration file, instead of the default ones; repeatable.")
    ] = None,
    config_dir: Annotated[
        list[Path] | None, typer.Option(help="Directory of *.conf files, read after the files; repeatable.")
    ] = None,
    socket: Annotated[
        Path | None,
        typer.Option(help="Unix socket to listen on, instead of --host and --port. Owner and group can connect."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="PEM file with the certificate and its issuers. Enables TLS.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file with the key of the certificate.")] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="PEM file with CA certificates. Clients must present a certificate of one of these."
        ),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(help="URL path prefix, such as /placement. Overrides the option path_prefix.")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="PORT or ADDRESS:PORT for Prometheus. Overrides the option metrics."),
    ] = None,
    show_token: Annotated[bool, typer.Option(help="Print the admin token of an embedded service.")] = False,
) -> None:
    """Start the server.

    Without any configuration it runs embedded: SQLite in the data directory, an admin token made at the first start, on
    this machine only. SIGHUP reads configuration and certificate again, and replaces the workers one after the other.
    """
    from stead.observe.log import held_back

    # Before the configuration is read, because these values reach it through the environment.
    _say_to_workers({"path_prefix": prefix, "metrics": metrics})
    with held_back("oslo_config", "stead.config"):
        settings = _settings(config_file, config_dir)
        _set_up_log(settings)
    tls = _tls(tls_certificate, tls_key, tls_client_ca)
    address = _address(socket, host, port, settings, scheme="https" if tls else "http")
    token = _admin_token(settings)
    as_json = options().json  # read here: the shared options belong to this thread
    with _occupied(settings) as occupation, ExitStack() as leaving:
        _require_apart(address, settings)
        # Bound before the tables are prepared, so that a port in use is found first. It listens only afterwards.
        sock = leaving.enter_context(address.bound())
        leaving.callback(address.release)
        address = address.at(sock)
        _warn_if_open(address, settings)
        url = address.url + settings.path_prefix
        if occupation is not None:
            occupation.decide(url)
        _hand_over(settings)
        prepare_database(settings)

        facts = _facts(settings, url, token if show_token else None)

        def announce() -> None:
            if occupation is not None:
                occupation.announce(url, tls.certificate if tls else None, facts.get("metrics"))
            _say({**facts, **_sign_in(settings, url)}, as_json=as_json)
            _tell_service_manager("READY=1")

        leaving.enter_context(_metrics_directory(settings))
        address.listen(sock)
        main_process = MainProcess(
            sock,
            workers=workers,
            threads=threads,
            tls=tls,
            unresponsive=settings.http.worker_timeout,
            when_listening=announce,
        )
        try:
            main_process.run()
        except WorkersFailed as error:
            raise NotServed(str(error)) from error


@contextmanager
def _occupied(settings: Settings) -> Iterator[Occupation | None]:
    """The data directory of an embedded service, locked for this process.

    Raises:
        NotServed: another server runs on it.
    """
    if not settings.embedded:
        yield None
        return
    with occupied(settings.data_dir) as occupation:
        yield occupation


def _say_to_workers(values: dict[str, str | None]) -> None:
    """Make options of the command line override those of the configuration, here and in the workers."""
    for name, value in values.items():
        if value is not None:
            os.environ[f"OS_STEAD__{name.upper()}"] = value


def _settings(files: list[Path] | None, dirs: list[Path] | None) -> Settings:
    from stead.config import ConfigError, load

    try:
        return load(files or None, dirs or None, data_dir=chosen_data_dir())
    except ConfigError as error:
        raise NotServed(str(error)) from error


def _tls(certificate: Path | None, key: Path | None, clients: Path | None) -> TlsFiles | None:
    if certificate is None and key is None and clients is None:
        return None
    if certificate is None or key is None:
        raise CommandError("TLS needs both --tls-certificate and --tls-key")
    files = TlsFiles(certificate.absolute(), key.absolute(), clients.absolute() if clients else None)
    try:
        files.context()
    except UnusableFiles as error:
        raise NotServed(str(error)) from error
    return files


def _address(path: Path | None, host: str, port: int, settings: Settings, *, scheme: str) -> Address | UnixAddress:
    address = UnixAddress(path.absolute()) if path else Address.of(host, port, scheme)
    if settings.embedded and not address.is_of_this_machine_only:
        raise CommandError(
            f"without a configuration the service listens on this machine only, not on {host}: "
            "write a placement.conf, or leave out --host"
        )
    return address


def _require_apart(address: Address | UnixAddress, settings: Settings) -> None:
    """Refuse equal ports for API and metrics: the first worker would bind the port, and requests would fail."""
    if settings.watch.metrics is None or isinstance(address, UnixAddress):
        return
    metrics = Address.of(*settings.watch.metrics)
    if metrics.port == address.port and (
        metrics.host == address.host or {"0.0.0.0", "::"} & {metrics.host, address.host}
    ):
        raise NotServed(f"port {address.port} is asked for twice: for the API and for the metrics")


def _warn_if_open(address: Address | UnixAddress, settings: Settings) -> None:
    """Warn if clients of other machines need no valid token."""
    if settings.auth_strategy != "noauth2" or isinstance(address, UnixAddress) or address.is_of_this_machine_only:
        return
    _log.warning(
        "[api] auth_strategy = noauth2 checks no token, and the service listens on %s port %d: every client that can "
        "connect can act as administrator. Set auth_strategy to keystone or token, or use --host 127.0.0.1",
        address.host,
        address.port,
    )


@contextmanager
def _metrics_directory(settings: Settings) -> Iterator[None]:
    """The workers' report directory, if metrics are enabled and the configuration names none; empty at the start.

    Raises:
        NotServed: the port of the metrics is in use, or there is no place for the directory.
    """
    if settings.watch.metrics is not None:
        # Workers ignore a port that is in use, because another worker may have it, so the check is here.
        Address.of(*settings.watch.metrics).bound("Stop that process, or choose another port with --metrics").close()
    if settings.watch.metrics is None or settings.watch.metrics_dir is not None:
        yield
        return
    try:
        temporary = TemporaryDirectory(prefix="stead-metrics-")
    except OSError as error:  # also if there is no directory for temporary files
        raise NotServed(
            f"no temporary directory for metrics: {error.strerror}. Set TMPDIR or [stead] metrics_directory."
        ) from error
    with temporary as directory:
        _say_to_workers({"metrics_directory": directory})
        yield


def _set_up_log(settings: Settings) -> None:
    from stead.application import set_up_log
    from stead.config import ConfigError

    try:
        set_up_log(settings)
    except ConfigError as error:
        raise NotServed(str(error)) from error


def _tell_service_manager(state: str) -> None:
    """Notify systemd of *state*, if it started this process and expects that. Source: sd_notify(3)."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with socket_module.socket(socket_module.AF_UNIX, socket_module.SOCK_DGRAM) as manager:
            manager.connect("\0" + path[1:] if path.startswith("@") else path)
            manager.sendall(state.encode())


def _admin_token(settings: Settings) -> str | None:
    """The owner's token; None unless the service is embedded and authenticates by tokens."""
    if not settings.embedded:
        return None
    os.umask(0o077)  # other users must not read the database
    from stead.auth.tokens import ensure_admin_token, private_directory
    from stead.config import ConfigError

    try:
        if settings.auth_strategy == "token":
            return ensure_admin_token(settings.data_dir)
        private_directory(settings.data_dir)
    except ConfigError as error:
        raise NotServed(str(error)) from error
    except OSError as error:
        raise NotServed(f"data directory {settings.data_dir}: {error.strerror}") from error
    return None


def _hand_over(settings: Settings) -> None:
    """Pass the configuration files that were found here to the workers, in place of their own search."""
    from stead.config.settings import CONFIG_DIR_VARIABLE, CONFIG_FILE_VARIABLE, DATA_DIR_VARIABLE

    for variable, paths in (
        (CONFIG_FILE_VARIABLE, settings.config_files),
        (CONFIG_DIR_VARIABLE, settings.config_dirs),
        (DATA_DIR_VARIABLE, (settings.data_dir,)),
    ):
        os.environ[variable] = os.pathsep.join(str(path) for path in paths)


def prepare_database(settings: Settings) -> None:
    """Create or update the tables before the workers start, if the settings say so; otherwise check them.

    Raises:
        NotServed: the database cannot be reached, or lacks tables; the message has the command to run.
    """
    from sqlalchemy.exc import SQLAlchemyError

    from stead.application import open_store
    from stead.domain.errors import SteadError

    try:
        open_store(settings.database).close()
    except SteadError as error:
        raise NotServed(str(error)) from error
    except SQLAlchemyError as error:
        raise NotServed(f"the database cannot be used: {getattr(error, 'orig', None) or error}") from error


def _facts(settings: Settings, url: str, token: str | None) -> dict[str, str]:
    facts = {"url": url}
    if settings.watch.metrics is not None:
        facts["metrics"] = f"{Address(*settings.watch.metrics).url}/metrics"
    if settings.embedded:
        facts["data_dir"] = str(settings.data_dir)
    if settings.embedded and settings.auth_strategy == "token":
        facts["admin_token_file"] = str(settings.data_dir / "admin-token")
    if token is not None:
        facts["admin_token"] = token
    return facts


def _sign_in(settings: Settings, url: str) -> dict[str, str]:
    """The link with which the owner of an embedded service signs in to the web interface, once."""
    if not settings.ui.enabled or not settings.embedded or settings.auth_strategy != "token" or url.startswith("unix:"):
        return {}
    from stead.auth.tokens import new_code

    return {"web_interface": f"{url}/ui/sign-in?code={new_code(settings.data_dir)}"}


def _say(facts: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts), flush=True)
        return
    words = {
        "url": "Stead listens on",
        "data_dir": "data directory",
        "admin_token_file": "admin token in",
        "metrics": "metrics at",
        "web_interface": "web interface at",
    }
    print("\n".join(f"{words.get(name, 'admin token'):>16}  {fact}" for name, fact in facts.items()), flush=True)
