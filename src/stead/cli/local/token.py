"""``stead token``: the static tokens of ``auth_strategy = token``. Services see a change at their next request."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli.aliases import with_name
from stead.cli.arguments import options
from stead.cli.errors import CommandError, Negative
from stead.cli.local.db import ConfigDir, ConfigFile  # noqa: TC001  # Typer reads them
from stead.cli.server import service_settings
from stead.cli.terminal import line_width, print_json, show_lines
from stead.printing import printable

if TYPE_CHECKING:
    from pathlib import Path

    from stead.auth.tokens import Token
    from stead.config import Settings

app = typer.Typer(add_completion=False, no_args_is_help=True)

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the token.", show_default=False)],
    role: Annotated[list[str], typer.Option(help="Role of the token; repeatable.", show_default=False)],
    user: Annotated[str | None, typer.Option(help="ID of the user. Default: the name of the token.")] = None,
    project: Annotated[str | None, typer.Option(help="ID of the project. Default: the name of the token.")] = None,
    expires: Annotated[
        str | None,
        typer.Option(help="Expiry: 30m, 12h or 90d from now, or a time such as 2031-01-01T00:00:00Z. Default: never."),
    ] = None,
    any_role: Annotated[
        bool, typer.Option("--any-role", help="Accept roles that no rule of the policy names.")
    ] = False,
    config_file: ConfigFile = None,
    config_dir: ConfigDir = None,
) -> None:
    """Create a token and print it. Stead stores only its hash."""
    from stead.auth import tokens
    from stead.config import ConfigError

    end = None if expires is None else _end(expires)
    settings = service_settings(config_file, config_dir)
    path = _token_file(settings)
    if not any_role:
        _require_known(role, settings)
    who: dict[str, Any] = {"user": name if user is None else user, "project": name if project is None else project}
    try:
        made = tokens.create(path, name, **who, roles=role, expires=end)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    if options().json:
        print_json({"name": name, "token": made, **who, "roles": role, "expires": end and end.isoformat()})
    else:
        print(made)


@app.command("list")
def list_(config_file: ConfigFile = None, config_dir: ConfigDir = None) -> None:
    """List tokens with their users, projects, roles and expiry."""
    from stead.auth.tokens import tokens_in
    from stead.config import ConfigError
    from stead.process.files import exposure_of

    path = _token_file(service_settings(config_file, config_dir))
    try:
        tokens = tokens_in(path)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    if exposure := exposure_of(path):
        print(f"stead: warning: token file {printable(str(path))}: {exposure}", file=sys.stderr)
    now = datetime.now(UTC)
    if options().json:
        print_json({"tokens": [_as_json(token, now) for token in tokens]})
    else:
        _show(tokens, now)


@app.command()
def revoke(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names of the tokens.", show_default=False)],
    config_file: ConfigFile = None,
    config_dir: ConfigDir = None,
) -> None:
    """Revoke tokens immediately."""
    from stead.auth import tokens
    from stead.config import ConfigError

    try:
        tokens.revoke(_token_file(service_settings(config_file, config_dir)), names)
    except KeyError as error:
        raise Negative(f"there is no token {error.args[0]}") from error
    except ConfigError as error:
        raise CommandError(str(error)) from error
    if options().json:
        print_json({"revoked": names})
    else:
        print(f"revoked {printable(', '.join(names))}")


def _token_file(settings: Settings) -> Path:
    if settings.token_file is None:
        raise CommandError(
            f"auth_strategy is `{settings.auth_strategy}`: tokens of a file are for `token`, and [stead] token_file "
            "says where"
        )
    return settings.token_file


def _require_known(roles: list[str], settings: Settings) -> None:
    """Refuse a role that grants no permission, which is probably a typing error.

    Raises:
        CommandError: no rule of the policy names it.
    """
    from difflib import get_close_matches

    from stead.auth.policy import roles_in
    from stead.config import ConfigError

    try:
        known_roles = roles_in(settings.conf)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    for role in roles:
        if role.lower() not in known_roles:
            near = get_close_matches(role.lower(), known_roles, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise CommandError(
                f"unknown role {role!r}.{hint} The rules of the policy name {', '.join(sorted(known_roles))}; "
                "--any-role accepts others"
            )


def _end(text: str) -> datetime:
    """Parse a time; the result is in UTC.

    Raises:
        CommandError: *text* is not a time, or is in the past.
    """
    now = datetime.now(UTC)
    end: datetime | None
    if match := re.fullmatch(r"([0-9]{1,6})([mhd])", text):
        end = (now + timedelta(**{_UNITS[match[2]]: int(match[1])})).replace(microsecond=0)
    else:
        try:
            end = datetime.fromisoformat(text)
            end = end.astimezone(UTC) if end.tzinfo is not None else None
        except (ValueError, OverflowError):
            end = None
    if end is None:
        raise CommandError(f"--expires {text}: neither 30m, 12h or 90d nor a time with its zone, 2031-01-01T00:00:00Z")
    if end <= now:
        raise CommandError(f"--expires {text}: this time has passed")
    return end


def _as_json(token: Token, now: datetime) -> dict[str, Any]:
    return {
        "name": token.name,
        "user": token.user,
        "project": token.project,
        "roles": list(token.roles),
        "expires": token.expires and token.expires.isoformat(),
        "expired": token.is_expired(now),
    }


def _show(tokens: tuple[Token, ...], now: datetime) -> None:
    from stead.cli.terminal import draw_list

    if not tokens:
        print("no tokens")
        return
    rows = []
    for token in tokens:
        end = "never" if token.expires is None else f"{token.expires:%Y-%m-%d %H:%M:%S %Z}"
        end += " (it has)" if token.is_expired(now) else ""
        rows.append((token.name, with_name(token.user), with_name(token.project), ", ".join(token.roles), end))
    show_lines(draw_list(("name", "user", "project", "roles", "expires"), rows, line_width()))
