"""The ``stead`` command: selects the subcommand, passes the shared options, and maps errors to exit codes.

A subcommand's module is imported when the subcommand runs, so that ``stead --help`` takes no longer than Typer itself.
A module has a :class:`typer.Typer` for each of its subcommands (without completion, which only this module offers),
with one command, or with several for a family. ``local/`` has those that open a database instead of a server.
"""

from __future__ import annotations

import copy
import errno
import os
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path  # noqa: TC003  # Typer reads the annotations
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from stead import __version__
from stead.cli import manual
from stead.cli.arguments import OUTPUTS, Options, adapt_parameters, options, use_options
from stead.cli.errors import REFUSED, CommandError
from stead.cli.suggestions import suggestion
from stead.cli.terminal import outlive_reader, prepare_streams
from stead.printing import one_line

INTERRUPTED = 128 + 2  # as a shell reports a process that SIGINT ended
READER_LEFT = 128 + 13  # SIGPIPE

UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # Typer exports no public name for it


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A row of ``stead --help``, the shared options that the command accepts, and where its ``app`` is.

    *short* is for a screen that has no line for each command.

    A command that changes nothing ends when its reader does, as ``stead tree | head -1``. All others finish first.
    """

    heading: str
    short: str
    help: str
    shared: frozenset[str]
    app: str
    changes_nothing: bool = False


_OUTPUT = frozenset({"output", "json", "no_color", "quiet", "raw"})
_CLIENT = _OUTPUT | {"url", "token", "data_dir"}
_LOCAL = _OUTPUT | {"data_dir"}
_LOOK, _PLACE, _KEEP, _RUN = "Look", "Place", "Change", "Run a server"

SUBCOMMANDS = {
    "tree": Subcommand(
        _LOOK,
        "trees and their usage",
        "Show provider trees with their usage, or a summary of many.",
        _CLIENT,
        "tree:app",
        changes_nothing=True,
    ),
    "consumer": Subcommand(
        _LOOK,
        "who has what",
        "List and show consumers: who has what.",
        _CLIENT,
        "consumers:consumer_app",
        changes_nothing=True,
    ),
    "who": Subcommand(
        _LOOK,
        "consumers of a host",
        "List the consumers of a host.",
        _CLIENT,
        "consumers:who_app",
        changes_nothing=True,
    ),
    "usage": Subcommand(
        _LOOK,
        "sums per project",
        "Show sums of allocations per project, user or type.",
        _CLIENT,
        "consumers:usage_app",
        changes_nothing=True,
    ),
    "watch": Subcommand(
        _LOOK,
        "changes, as they happen",
        "Print changes of providers and consumers.",
        _CLIENT,
        "watch:app",
        changes_nothing=True,
    ),
    "top": Subcommand(
        _LOOK,
        "fullest hosts, live",
        "Watch the fullest and emptiest hosts, live.",
        _CLIENT,
        "top:app",
        changes_nothing=True,
    ),
    "ps": Subcommand(
        _LOOK,
        "who runs what",
        "List runs: who runs what where, until when.",
        _CLIENT,
        "run:ps_app",
        changes_nothing=True,
    ),
    "mix": Subcommand(
        _LOOK,
        "weights of requests",
        "Show the mix of requests that the order headroom leaves room for.",
        _CLIENT,
        "flavors:mix_app",
    ),
    "candidates": Subcommand(
        _PLACE,
        "where a request fits",
        "List allocation candidates for a request.",
        _CLIENT,
        "candidates:candidates_app",
        changes_nothing=True,
    ),
    "explain": Subcommand(
        _PLACE,
        "why nothing fits",
        "Explain where a request fits, or why nothing fits.",
        _CLIENT,
        "candidates:explain_app",
        changes_nothing=True,
    ),
    "headroom": Subcommand(
        _PLACE,
        "how many times it fits",
        "Show how many times a request fits.",
        _CLIENT,
        "headroom:app",
        changes_nothing=True,
    ),
    "claim": Subcommand(_PLACE, "claim a place", "Claim a place where a request fits.", _CLIENT, "claims:claim_app"),
    "release": Subcommand(
        _PLACE,
        "release allocations",
        "Release the allocations of a consumer, or of several.",
        _CLIENT,
        "claims:release_app",
    ),
    "run": Subcommand(
        _PLACE,
        "a command on a place",
        "Run a command on a place that is claimed while it runs.",
        _CLIENT,
        "run:run_app",
    ),
    "kill": Subcommand(_PLACE, "end a run", "Release what a run has, by force.", _CLIENT, "run:kill_app"),
    "whatif": Subcommand(
        _PLACE,
        "after planned changes",
        "Answer a question as if planned changes were made.",
        _CLIENT,
        "what_if:app",
        changes_nothing=True,
    ),
    "plan": Subcommand(
        _PLACE, "drain hosts, make room", "Plan to drain hosts or to make room, and carry it out.", _CLIENT, "plan:app"
    ),
    "provider": Subcommand(_KEEP, "list, show, change", "List, show and change providers.", _CLIENT, "provider:app"),
    "flavor": Subcommand(
        _KEEP, "requests with a name", "List, store and import flavors: requests with a name.", _CLIENT, "flavors:app"
    ),
    "alias": Subcommand(
        _KEEP, "names for UUIDs", "Keep names for UUIDs of consumers, projects and aggregates.", _OUTPUT, "aliases:app"
    ),
    "topology": Subcommand(
        _KEEP, "trees as files", "Load, save and generate provider trees as files.", _CLIENT, "topology:app"
    ),
    "serve": Subcommand(_RUN, "start the server", "Start the server.", _LOCAL, "local.serve:app"),
    "doctor": Subcommand(
        _RUN,
        "check all of it",
        "Check the configuration, the database and the server.",
        _LOCAL,
        "local.doctor:app",
        changes_nothing=True,
    ),
    "db": Subcommand(
        _RUN, "create, check tables", "Create, upgrade and check the database tables.", _LOCAL, "local.db:app"
    ),
    "audit": Subcommand(
        _RUN,
        "check allocations",
        "Check allocations and inventories in a database, and repair them.",
        _LOCAL,
        "local.audit:app",
    ),
    "config": Subcommand(
        _RUN,
        "options in effect",
        "Print the configuration in effect, or a sample.",
        _LOCAL,
        "local.config:app",
        changes_nothing=True,
    ),
    "token": Subcommand(
        _RUN, "tokens for users", "Create, list and revoke tokens of auth_strategy `token`.", _LOCAL, "local.token:app"
    ),
    "completion": Subcommand(
        _RUN,
        "for the shell",
        "Print a script for completion in the shell.",
        _CLIENT,
        "completion:app",
        changes_nothing=True,
    ),
}

_FORMER = {"consumers": ("consumer", "list"), "flavors": ("flavor",)}
"""Commands of earlier releases, which stay, and their present words."""

MEANT = {
    "allocations": "consumer list",
    "apply": "topology apply",
    "consume": "claim",
    "del": "release",
    "drain": "plan drain",
    "events": "watch",
    "get": "tree",
    "host": "provider list",
    "hosts": "provider list",
    "instances": "consumer list",
    "list": "tree",
    "ll": "tree",
    "log": "watch",
    "logs": "watch",
    "ls": "tree",
    "node": "provider list",
    "nodes": "provider list",
    "providers": "provider list",
    "rm": "release",
    "servers": "consumer list",
    "start": "serve",
    "tokens": "token list",
    "why": "explain",
}
"""Words that are likely to be typed, for which no command is alike, and what they mean here."""


def present_words(words: list[str]) -> list[str]:
    """*words* of a command line, with the former name of a command replaced."""
    return [*_FORMER.get(words[0], (words[0],)), *words[1:]] if words else words


class Subcommands(TyperGroup):
    """The subcommands by name; only the one that runs is imported."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        adapt_parameters(self)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # Typer's signature
        """The names, in the order of the help."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002  # Typer's signature
        """The description of a command, for help and suggestions."""
        row = SUBCOMMANDS.get(cmd_name)
        return row and TyperCommand(name=cmd_name, help=row.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import and return the command that *args* begin with."""
        try:
            name, _, rest = super().resolve_command(ctx, present_words(args))
        except UsageError as error:
            meant = MEANT.get(args[0])
            hint = f" Did you mean {meant}?" if meant else suggestion(args[0], SUBCOMMANDS)
            error.message = f"No such command {args[0]!r}.{hint}"  # type: ignore[attr-defined]  # click's UsageError has it
            raise
        if not SUBCOMMANDS[str(name)].changes_nothing:
            outlive_reader()
        return name, self.load(str(name)), rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of ``stead`` itself."""
        topics = [manual.Topic(name, row.short, row.help, row.heading) for name, row in SUBCOMMANDS.items()]
        formatter.write(manual.of_stead(self, topics, ctx))

    def load(self, name: str) -> Any:
        """Import and return the command *name*, with its shared options."""
        row = SUBCOMMANDS[name]
        module, _, app_name = row.app.partition(":")
        command = get_command(getattr(import_module(f"stead.cli.{module}"), app_name))
        command.name = name
        adapt_parameters(command)
        manual.use(command, name)
        share([option for option in self.params if option.name in row.shared], command)
        return command


def share(shared: list[Any], command: Any) -> None:
    """Add the *shared* options to *command* and all its subcommands, except options that a command defines itself."""
    for below in getattr(command, "commands", {}).values():
        share(shared, below)
    if isinstance(command, TyperGroup) and not command.invoke_without_command:
        return
    own = {flag for parameter in command.params for flag in parameter.opts}
    for option in shared:
        if own.isdisjoint(option.opts):
            after = copy.copy(option)
            after.expose_value = False  # it is kept; the command's function does not know it
            after.envvar = (
                None  # the environment was read already; it must not override what precedes the command's name
            )
            command.params.append(after)


def _keep(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    name = str(param.name)
    if value == "":  # such as --url "$SERVER" with an unset variable: do not fall back to another server
        raise typer.BadParameter(f"the value of {param.opts[0]} is empty", ctx)
    if value:
        source = ctx.get_parameter_source(name)
        from_environment = options().from_environment - {name}
        if source is not None and source.name == "ENVIRONMENT":
            from_environment |= {name}
        use_options(replace(options(), **{name: value}, from_environment=from_environment))
    return value


def _keep_output(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    if value:
        output = "json" if param.name == "json" else str(value)
        if output not in OUTPUTS:
            raise typer.BadParameter(f"-o {output}: expected {', '.join(OUTPUTS)}.{suggestion(output, OUTPUTS)}", ctx)
        use_options(replace(options(), output=output))
    return value


def _version(value: bool) -> None:
    if value:
        print(f"stead {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Subcommands,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def stead(
    url: Annotated[
        str | None,
        typer.Option(
            envvar="STEAD_URL",
            callback=_keep,
            help="URL of the server: http://, https:// or unix://. Default: that of --data-dir.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="STEAD_TOKEN",
            callback=_keep,
            help="The token to send. Default: the admin token of --data-dir, for its own server.",
            show_envvar=True,
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="STEAD_DATA_DIR",
            callback=_keep,
            help="Data directory of an embedded server. It overrides STEAD_URL.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FORMAT",
            callback=_keep_output,
            help="table: text that fits the terminal. wide: text with everything whole. json, yaml: all data. "
            "csv: a row per item. name: the name of each item, for other commands. Default: table.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", callback=_keep_output, help="Print JSON, as -o json.")] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", callback=_keep, help="Print without colors, as with NO_COLOR=1.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", callback=_keep, help="Print results and errors only: no progress, no remarks.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", callback=_keep, help="Print memory and disk in MiB and GiB, exactly.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A Placement service: what every provider can still give, where a request fits, and who claimed it."""


def main(arguments: list[str] | None = None) -> None:
    """Run ``stead`` with *arguments*, those of the process if None, and end the process with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writes to a file that stdout is redirected to."""


def run(arguments: list[str]) -> int:
    """Run ``stead`` and return the exit code: 0 done, 1 no, 2 wrong usage or refused, else 128 + a signal."""
    use_options(Options())
    prepare_streams()
    try:
        code = app(args=_as_options(arguments), prog_name="stead", standalone_mode=False)
        sys.stdout.flush()
    except CommandError as error:
        return _complain(str(error), error.exit_code)
    except UsageError as error:
        return _complain(_usage(error), REFUSED)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (OSError, SystemExit, UnicodeEncodeError) as error:
        ended = _ended_by_system(error, arguments)
        if ended is None:
            raise
        return ended
    return code if isinstance(code, int) else 0


def _as_options(arguments: list[str]) -> list[str]:
    """*arguments* with ``help`` and ``version`` as the options that do the same."""
    manual.print_everything(False)
    match arguments:
        case ["version"]:
            return ["--version"]
        case ["help", *words]:
            manual.print_everything(bool(words))
            return ["--help"] if words == ["options"] else [*words, "--help"]
    return arguments or ["--help"]


def _ended_by_system(error: BaseException, arguments: list[str]) -> int | None:
    """The exit code if the output has no reader or no room, or if an argument is not text; None for other errors."""
    if isinstance(error, UnicodeEncodeError):
        # The system passes bytes that are not UTF-8 as lone surrogates, which no request can carry.
        if not any("\ud800" <= character <= "\udfff" for argument in arguments for character in argument):
            return None
        return _complain(f"an argument is not UTF-8 text: {error.object!r}", REFUSED)
    if _reader_left(error):
        _discard_output()
        return READER_LEFT
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        _discard_output()
        return _complain(f"the output cannot be written: {error.strerror}", REFUSED)
    return None


def _discard_output() -> None:
    """Let the last flush at exit succeed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reader_left(error: BaseException) -> bool:
    """Whether the reader of stdout is gone, as in ``stead tree | head -1``; Typer and Rich turn that into an exit."""
    return isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError)


def _complain(message: str, exit_code: int) -> int:
    if message:
        sys.stdout.flush()  # what was printed before stands before, also where both go to one file
        print(f"stead: {one_line(message)}", file=sys.stderr)
    return exit_code


def _usage(error: Any) -> str:
    """The error and the command that shows the usage; empty if Typer has already shown the help."""
    message: str = error.format_message()
    context = getattr(error, "ctx", None)
    if message.startswith("Usage: "):  # a family without a command
        print(message)
        return ""
    if not message or context is None:
        return message
    return f"{message} (see `{context.command_path} --help`)"
