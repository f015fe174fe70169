"""``stead serve``: run the service."""

from __future__ import annotations

import json
import os
from ipaddress import ip_address
from pathlib import Path  # noqa: TC003  # Typer reads it
from typing import TYPE_CHECKING, Annotated

import typer

from stead.cli.errors import CommandError
from stead.cli.granian_server import Address, NotServed, serve
from stead.cli.options import options

if TYPE_CHECKING:
    from stead.config import Settings

app = typer.Typer(add_completion=False)


@app.command("serve")
def run(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8778,
    workers: Annotated[int, typer.Option(min=1, help="Processes; one keeps about one core busy.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Requests a process works on at a time.")] = 8,
    config_file: Annotated[
        list[Path] | None, typer.Option(help="Configuration file instead of the usual ones; may be repeated.")
    ] = None,
    config_dir: Annotated[
        list[Path] | None, typer.Option(help="Directory of *.conf files, read after the files; may be repeated.")
    ] = None,
    show_token: Annotated[bool, typer.Option(help="Print the admin token of an embedded service.")] = False,
) -> None:
    """Run the service.

    Without any configuration it runs embedded: SQLite in the data directory, an admin token made at the first start, on
    this machine only.
    """
    from stead.config import ConfigError, load

    try:
        settings = load(config_file or None, config_dir or None, data_dir=options().data_dir)
    except ConfigError as error:
        raise NotServed(str(error)) from error
    address = _address(host, port, settings)
    token = _admin_token(settings)
    _hand_over(settings)
    prepare_database(settings)
    note = settings.data_dir / "server.json"
    as_json = options().json  # asked here: the shared options are this thread's

    def announce() -> None:
        if settings.embedded:
            _write_note(note, address)
        _say(_facts(settings, address, token if show_token else None), as_json=as_json)

    try:
        serve(address, workers=workers, threads=threads, when_listening=announce)
    finally:
        _remove_note(note)


def _address(host: str, port: int, settings: Settings) -> Address:
    address = Address.of(host, port)
    if settings.embedded and not ip_address(address.host.partition("%")[0]).is_loopback:
        raise CommandError(
            f"without a configuration the service listens on this machine only, not on {host}: "
            "write a placement.conf, or leave out --host"
        )
    return address.checked()


def _admin_token(settings: Settings) -> str | None:
    """The owner's token; only an embedded service that authenticates by tokens has one."""
    if not settings.embedded:
        return None
    os.umask(0o077)  # the database is nobody else's business either
    if settings.auth_strategy != "token":
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return None
    from stead.auth import ensure_admin_token
    from stead.config import ConfigError

    try:
        return ensure_admin_token(settings.data_dir)
    except ConfigError as error:
        raise NotServed(str(error)) from error


def _hand_over(settings: Settings) -> None:
    """Let the workers find the configuration that was found here, wherever they look first."""
    from stead.config.paths import CONFIG_DIR_VARIABLE, CONFIG_FILE_VARIABLE, DATA_DIR_VARIABLE

    for variable, paths in (
        (CONFIG_FILE_VARIABLE, settings.config_files),
        (CONFIG_DIR_VARIABLE, settings.config_dirs),
        (DATA_DIR_VARIABLE, (settings.data_dir,)),
    ):
        os.environ[variable] = os.pathsep.join(str(path) for path in paths)


def prepare_database(settings: Settings) -> None:
    """Once, before there are workers: make or update the tables if the settings say so, else require them as they are.

    Raises:
        NotServed: the database cannot be reached, or lacks tables; the message has the command that helps.
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


def _facts(settings: Settings, address: Address, token: str | None) -> dict[str, str]:
    facts = {"url": address.url}
    if settings.embedded:
        facts["data_dir"] = str(settings.data_dir)
    if settings.embedded and settings.auth_strategy == "token":
        facts["admin_token_file"] = str(settings.data_dir / "admin-token")
    if token is not None:
        facts["admin_token"] = token
    return facts


def _say(facts: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts), flush=True)
        return
    words = {"url": "Stead listens on", "data_dir": "data directory", "admin_token_file": "admin token in"}
    print("\n".join(f"{words.get(name, 'admin token'):>16}  {fact}" for name, fact in facts.items()), flush=True)


def _write_note(note: Path, address: Address) -> None:
    from stead.auth.admin_token import replace_privately

    replace_privately(note, json.dumps({"url": address.url, "pid": os.getpid()}) + "\n")


def _remove_note(note: Path) -> None:
    """Remove the note of where this process listens; the note of another stays."""
    try:
        if json.loads(note.read_text())["pid"] == os.getpid():
            note.unlink()
    except (OSError, ValueError, KeyError, TypeError):
        pass
