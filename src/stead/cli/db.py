"""``stead db``: the database's tables."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path  # Typer reads it
from typing import TYPE_CHECKING, Annotated

import typer

from stead.cli.errors import CommandError, Negative
from stead.cli.options import options
from stead.cli.output import print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.store.transaction import Store

app = typer.Typer(add_completion=False, no_args_is_help=True)

ConfigFile = Annotated[
    list[Path] | None, typer.Option(help="Configuration file instead of the usual ones; may be repeated.")
]


@app.command()
def upgrade(config_file: ConfigFile = None) -> None:
    """Bring the tables up to date; a database without any gets them all."""
    from stead.store import schema

    with open_store(config_file) as store:
        done = schema.upgrade(store.writer)
    if options().json:
        print_json({"upgraded": done})
    else:
        print("\n".join(f"ran {revision}" for revision in done) or "nothing to do")


@app.command()
def version(config_file: ConfigFile = None) -> None:
    """Show at which revisions the tables are."""
    from stead.store import schema

    with open_store(config_file) as store:
        found = {standing.history: standing.revision for standing in schema.standings(store.writer)}
    if options().json:
        print_json(found)
    else:
        print("\n".join(f"{history:>9}  {revision or 'none'}" for history, revision in found.items()))


@app.command()
def check(config_file: ConfigFile = None) -> None:
    """Say whether the service could start on the database; exit code 1 if not."""
    from stead.store import schema

    with open_store(config_file) as store:
        found = schema.standings(store.writer)
    ready = all(standing.is_current for standing in found)
    if options().json:
        print_json({"ready": ready, "revisions": {standing.history: standing.revision for standing in found}})
    if not ready:
        raise Negative(str(schema.SchemaOutdated(found)))
    if not options().json:
        print("the database is ready")


@app.command()
def new_epoch(config_file: ConfigFile = None) -> None:
    """After a restore: have every running service load everything anew, and add up allocations again."""
    from stead.store import epoch

    with open_store(config_file) as store:
        begun = store.write(epoch.renew)
    if options().json:
        print_json({"epoch": begun})
    else:
        print(f"epoch {begun} has begun; every running service loads everything anew")


@contextmanager
def open_store(config_file: list[Path] | None) -> Iterator[Store]:
    """The database that the configuration names, as it is.

    Raises:
        CommandError: there is no such configuration, or the database cannot be used.
    """
    from sqlalchemy.exc import SQLAlchemyError

    from stead.application import database_of
    from stead.config import ConfigError, load
    from stead.domain.errors import SteadError
    from stead.store.transaction import Store

    try:
        settings = load(config_file or None, data_dir=options().data_dir)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    if settings.embedded:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = Store(database_of(settings.database), write_timeout=settings.database.write_timeout)
    try:
        yield store
    except (SQLAlchemyError, RuntimeError, SteadError) as error:
        raise CommandError(f"the database cannot be used: {getattr(error, 'orig', None) or error}") from error
    finally:
        store.close()
