"""``stead db``: the database's tables."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from enum import StrEnum
from itertools import groupby
from pathlib import Path  # Typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli.arguments import options
from stead.cli.errors import CommandError, Negative
from stead.cli.server import service_settings
from stead.cli.terminal import print_json
from stead.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.store.audit.checks import Finding
    from stead.store.protocol.store import Store
    from stead.store.schema.adoption import Findings

app = typer.Typer(add_completion=False, no_args_is_help=True)

ConfigFile = Annotated[
    list[Path] | None, typer.Option(help="Configuration file, instead of the default ones; repeatable.")
]
ConfigDir = Annotated[
    list[Path] | None, typer.Option(help="Directory of *.conf files, read after the files; repeatable.")
]
AsSql = Annotated[bool, typer.Option("--sql", help="Print the SQL statements without running them.")]


class Target(StrEnum):
    """The state to which a database can be downgraded."""

    UPSTREAM = "upstream"


@app.command()
def upgrade(config_file: ConfigFile = None, config_dir: ConfigDir = None, sql: AsSql = False) -> None:
    """Upgrade the tables, or create them in an empty database.

    If the service's account may not change tables, run the statements of --sql with an account that may.
    """
    from stead.store.schema import adoption, schema

    with open_store(config_file, config_dir) as store:
        if sql:
            statements = schema.upgrade_statements(store.writer)
            if statements and (objections := adoption.data_objections(store.writer)):
                raise CommandError("; ".join(objections))
            print(statements or "-- nothing to do")
            return
        done = schema.upgrade(store.writer)
    if options().json:
        print_json({"upgraded": done})
    else:
        print("\n".join(f"ran {revision}" for revision in done) or "nothing to do")


@app.command()
def downgrade(
    to: Annotated[
        Target,
        typer.Option(metavar="TARGET", help="`upstream`: the tables of the OpenStack service, and none of Stead's."),
    ],
    config_file: ConfigFile = None,
    config_dir: ConfigDir = None,
    sql: AsSql = False,
) -> None:
    """Remove Stead's own tables. The deployment's tables stay unchanged.

    Stop every Stead service on the database first. Afterwards the OpenStack service works on it as before.
    """
    from stead.store.schema import schema

    with open_store(config_file, config_dir) as store:
        if sql:
            print(schema.remove_statements(store.writer) or "-- nothing to do")
            return
        removed = schema.remove(store.writer)
    if options().json:
        print_json({"downgraded_to": to.value, "removed": removed})
    else:
        print("\n".join(f"removed {name}" for name in removed) or "nothing to do")


@app.command()
def version(config_file: ConfigFile = None, config_dir: ConfigDir = None) -> None:
    """Show the revisions of the tables."""
    from stead.store.schema import schema

    with open_store(config_file, config_dir) as store:
        revisions = {standing.history: standing.revision for standing in schema.standings(store.writer)}
    if options().json:
        print_json(revisions)
    else:
        print("\n".join(f"{history:>9}  {printable(revision or 'none')}" for history, revision in revisions.items()))


@app.command()
def check(config_file: ConfigFile = None, config_dir: ConfigDir = None) -> None:
    """Show what an upgrade would do, what prevents it, and faulty rows. Exit code 1: the service cannot start yet.

    Nothing is changed.
    """
    from stead.store.audit import checks
    from stead.store.schema import adoption, schema

    with open_store(config_file, config_dir) as store:
        findings = adoption.examine(store.writer)
        faults = store.read(checks.audit, lambda _done, _all: None) if findings.has_readable_rows else []
    findings = replace(findings, warnings=(*findings.warnings, *_faulty_rows(faults)))
    if options().json:
        print_json(_as_json(findings))
    else:
        print("\n".join(map(printable, _told(findings))))
    if not findings.is_ready:
        raise Negative(str(schema.refusal_of(findings.standings) or "The database is not ready; see above"))


def _faulty_rows(findings: Sequence[Finding]) -> Iterator[str]:
    """A sentence for each kind of faulty rows."""
    for fault, group in groupby(findings, key=lambda finding: finding.fault):
        first, *others = group
        command = "stead audit --repair" if fault.value.is_repaired else "stead audit"
        yield f"{fault.value.meaning} ({len(others) + 1}), such as {first.subject}: {first.detail}; run: {command}"


def _told(findings: Findings) -> Iterator[str]:
    yield from (f"would run {step.revision}: {step.meaning}" for step in findings.pending)
    yield from (f"prevented by: {objection}" for objection in findings.objections)
    yield from (f"warning: {warning}" for warning in findings.warnings)
    if findings.is_ready:
        yield "the database is ready"


def _as_json(findings: Findings) -> dict[str, Any]:
    return {
        "ready": findings.is_ready,
        "revisions": {standing.history: standing.revision for standing in findings.standings},
        "pending": [step.revision for step in findings.pending],
        "objections": findings.objections,
        "warnings": findings.warnings,
    }


@app.command()
def new_epoch(config_file: ConfigFile = None, config_dir: ConfigDir = None) -> None:
    """Start a new epoch after a restore: running services reload everything, and sums are recomputed."""
    from stead.store.protocol.store import renew_epoch

    with open_store(config_file, config_dir) as store:
        begun = store.write(renew_epoch)
    if options().json:
        print_json({"epoch": begun})
    else:
        print(f"epoch {begun} has begun; every running service reloads everything")


@contextmanager
def open_store(config_file: list[Path] | None, config_dir: list[Path] | None = None) -> Iterator[Store]:
    """The configured database in its present state.

    Raises:
        CommandError: the configuration is missing, or the database cannot be used.
    """
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    from stead.application import database_of
    from stead.domain.errors import SteadError, Unavailable
    from stead.store.protocol.store import Store
    from stead.store.sql.dialects import UrlUnusable, telling_why

    settings = service_settings(config_file, config_dir)
    try:
        database = database_of(settings.database)
        with (
            closing(Store(database, write_timeout=settings.database.write_timeout)) as store,
            telling_why(store.writer.url),
        ):
            yield store
    except UrlUnusable as error:
        raise CommandError(str(error)) from error
    except Unavailable as error:
        said, failure = str(error), error.__cause__
        details = store.dialect.details(failure, store.writer.url) if isinstance(failure, DBAPIError) else ""
        raise CommandError(said if details in said else f"{said.rstrip('.')}: {details}") from error
    except (SQLAlchemyError, RuntimeError, SteadError) as error:
        raise CommandError(f"the database cannot be used: {getattr(error, 'orig', None) or error}") from error
