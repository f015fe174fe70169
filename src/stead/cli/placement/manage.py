"""``placement-manage``: database operations under the command name that operators and their tools already use.

Arguments, output and exit codes follow the contract of those tools; ``stead db`` is the more convenient alternative.
"""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from stead.cli.placement.deployment import complain, load_deployment, open_database, read_arguments

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from oslo_config import cfg

    from stead.config import Settings
    from stead.store.protocol.store import Store

BATCH = 50
MOST = 2**31 - 1  # rows in a batch; every database accepts it as a LIMIT

DONE, MORE, FAILED, NOT_POSITIVE = 0, 1, 2, 127
NO_COMMAND = 1

_log = logging.getLogger(__name__)


def main() -> None:
    """Run the process's command line, and end the process with the exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run ``placement-manage``; returns the exit code. Errors of the database are raised.

    Raises:
        SystemExit: wrong usage (2), or after ``--help`` and ``--version`` (0).
    """
    from stead.config import ConfigError

    try:
        conf = read_arguments(
            arguments,
            program="placement-manage",
            description="Create and upgrade the database tables of a deployment.",
            commands=_add_commands,
        )
        if conf.command.name is None:
            conf.print_help()
            return NO_COMMAND
        run_command: Callable[[cfg.ConfigOpts], int] = conf.command.run
        return run_command(conf)
    except ConfigError as error:
        return complain("placement-manage", error)


def _add_commands(parsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parsers.required = False
    db = parsers.add_parser("db", help="The database.")
    db.set_defaults(run=partial(_help, db))
    commands = db.add_subparsers(title="commands", metavar="{sync,version,stamp,online_data_migrations}")
    _add(commands, "sync", _sync, "Upgrade the tables, or create them in an empty database.")
    _add(commands, "version", _version, "Show the revision of the deployment's tables.")
    stamp = _add(commands, "stamp", _stamp, "Record a revision of the deployment's tables. The tables stay unchanged.")
    stamp.add_argument("revision")
    migrate = _add(commands, "online_data_migrations", _migrate, "Migrate the data while services run.")
    migrate.add_argument("--max-count", metavar="N", help="Migrate one batch of at most N rows. Default: all rows.")


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run_command: Callable[[cfg.ConfigOpts], int],
    meaning: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=meaning, description=meaning)
    parser.set_defaults(run=run_command)
    return parser


def _help(parser: argparse.ArgumentParser, _conf: cfg.ConfigOpts) -> int:
    parser.print_help()
    return DONE


def _sync(conf: cfg.ConfigOpts) -> int:
    from stead.store.schema import schema

    with open_database(load_deployment(conf)) as store:
        schema.upgrade(store.writer)
    return DONE


def _version(conf: cfg.ConfigOpts) -> int:
    from stead.store.schema import schema

    with open_database(load_deployment(conf)) as store:
        print(next(standing.revision for standing in schema.standings(store.writer) if standing.history == "placement"))
    return DONE


def _stamp(conf: cfg.ConfigOpts) -> int:
    from stead.store.schema import schema

    with open_database(load_deployment(conf)) as store:
        schema.stamp(store.writer, conf.command.revision)
    return DONE


def _migrate(conf: cfg.ConfigOpts) -> int:
    count: str | None = conf.command.max_count
    most = None if count is None else _positive(count)
    if most == 0:
        print("Must supply a positive value for max_count")
        return NOT_POSITIVE
    settings = load_deployment(conf)
    with ExitStack() as closing:
        # Opened by the first migration: if the database kind is unknown, each migration reports that failure itself.
        opened = cache(lambda: closing.enter_context(open_database(settings)))
        migrations = [Progress(name, migration) for name, migration in _migrations(opened, settings).items()]
        if most is not None:
            batch = run_batch(migrations, most)
            exit_code = MORE if batch.migrated else DONE
        else:
            print(f"Running batches of {BATCH} until complete")
            while (batch := run_batch(migrations, BATCH)).migrated:
                pass
            exit_code = DONE
    print(table([(each.name, each.migrated, each.migrated) for each in migrations if each.began]))
    if batch.failed and not batch.migrated:
        print("Some migrations failed unexpectedly. Check log for details.")
        return FAILED
    return exit_code


def _positive(text: str) -> int:
    """The number in *text*; 0 if it is not a positive number."""
    try:
        return min(max(int(text), 0), MOST)
    except ValueError:
        return 0


def _migrations(store: Callable[[], Store], settings: Settings) -> dict[str, Callable[[int], int]]:
    """Functions by name, in order: each migrates up to a number of rows and returns how many it migrated."""
    from stead.store.schema import adoption

    return {
        "set_root_provider_ids": lambda most: adoption.set_root_provider_ids(store(), most),
        "create_incomplete_consumers": lambda most: adoption.create_incomplete_consumers(
            store(),
            most,
            project=settings.allocations.incomplete_project_id,
            user=settings.allocations.incomplete_user_id,
        ),
    }


@dataclass(slots=True)
class Progress:
    """A migration, and its progress over all batches."""

    name: str
    run: Callable[[int], int]
    began: bool = False
    migrated: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one batch."""

    migrated: int
    failed: bool


def run_batch(migrations: Iterable[Progress], most: int) -> Batch:
    """Run the migrations in order until *most* rows are migrated. If one raises an error, the others still run."""
    migrated, failed = 0, False
    for each in migrations:
        if migrated == most:
            break
        each.began = True
        try:
            done = each.run(most - migrated)
        except Exception:
            print(f"Error attempting to run {each.name}")
            _log.exception("the online data migration %s failed", each.name)
            failed = True
            continue
        if done:
            print(f"{done} rows matched query {each.name}, {done} migrated")
        each.migrated += done
        migrated += done
    return Batch(migrated, failed)


def table(migrations: Iterable[tuple[str, int, int]]) -> str:
    """The rows that each migration found and completed, in the format that operators know."""
    rows = [("Migration", "Total Found", "Completed")]
    rows += [(name, str(number), str(completed)) for name, number, completed in migrations]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    lines = [
        "|".join(["", *(f" {cell.center(width)} " for cell, width in zip(row, widths, strict=True)), ""])
        for row in rows
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])
