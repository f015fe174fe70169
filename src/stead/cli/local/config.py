"""``stead config``: the configuration in effect, and all options."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  # Typer reads it
from typing import TYPE_CHECKING, Annotated

import typer

from stead.cli.arguments import chosen_data_dir, options
from stead.cli.errors import CommandError, Negative
from stead.cli.terminal import print_json
from stead.printing import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.config.report import Report, Shown

app = typer.Typer(add_completion=False, no_args_is_help=True)

NOT_SET = "<not set>"
NOT_USABLE = "<invalid>"


@app.command()
def show(
    config_file: Annotated[
        list[Path] | None, typer.Option(help="Configuration file, instead of the default ones; repeatable.")
    ] = None,
    config_dir: Annotated[
        list[Path] | None, typer.Option(help="Directory of *.conf files, read after the files; repeatable.")
    ] = None,
    changed: Annotated[bool, typer.Option("--changed", help="Omit options with their default value.")] = False,
) -> None:
    """Show the configuration in effect, and where each value comes from; passwords are masked.

    The exit code is 1 if a service cannot start with it.
    """
    from stead.config import ConfigError, read_conf
    from stead.config.report import report

    try:
        config = report(read_conf(config_file or None, config_dir or None), chosen_data_dir())
    except ConfigError as error:
        raise CommandError(str(error)) from error
    if options().json:
        print_json(
            {
                "options": [
                    {"group": each.group, "option": each.name, "value": each.value, "from": each.origin}
                    for each in config.shown
                    if not (changed and each.is_default)
                ],
                "ignored": [
                    {"group": option.group, "option": option.name, "from": option.place} for option in config.ignored
                ],
                "problems": list(config.problems),
            }
        )
    else:
        print("\n".join(_lines(config, changed=changed)))
    if config.problems:
        raise Negative("; ".join(config.problems))


def _lines(config: Report, *, changed: bool) -> Iterator[str]:
    group = None
    for each in config.shown:
        if changed and each.is_default:
            continue
        if each.group != group:
            yield from ([""] if group else [])
            yield f"[{each.group}]"
            group = each.group
        yield one_line(f"{each.name} = {_value(each)}  # {each.origin}")
    if config.ignored:
        yield "\n# not read by Stead:"
        yield from (one_line(f"# [{option.group}] {option.name}  ({option.place})") for option in config.ignored)


def _value(option: Shown) -> str:
    if option.problem:
        return NOT_USABLE
    return NOT_SET if option.value is None else option.value


@app.command()
def sample() -> None:
    """Write a documented placement.conf, with every option commented out at its default."""
    from stead.config.report import write_sample

    write_sample(sys.stdout)
