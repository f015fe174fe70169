"""``stead completion``: the shell completes commands, options, and names of providers, traits and classes."""

from __future__ import annotations

import shlex
from dataclasses import replace
from enum import StrEnum
from glob import escape, glob
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from stead.cli.app import app as stead
from stead.cli.app import present_words
from stead.cli.arguments import options, use_options
from stead.cli.terminal import print_json
from stead.printing import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead import Site

app = typer.Typer(add_completion=False)


class Shell(StrEnum):
    """Shells that are supported."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_SCRIPTS = {
    Shell.BASH: """\
_stead() {
    local IFS=$'\\n'
    COMPREPLY=($(stead completion bash --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
}
complete -o bashdefault -o default -F _stead stead
""",
    Shell.ZSH: """\
#compdef stead
_stead() {
    local -a candidates
    candidates=("${(@f)$(stead completion zsh --line "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${candidates[1]}" ]]; then
        compadd -a candidates
    else
        _files
    fi
}
compdef _stead stead
""",
    Shell.FISH: """\
complete -c stead -f -a '(stead completion fish --line (commandline -cp | string collect) 2>/dev/null)'
""",
}
_WORD_BREAKS = ":="  # at which bash begins another word
_MOST_TREES = 100
_FILES = frozenset({"FILE", "MACHINE.xml", "DIRECTORY"})


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)],
    line: Annotated[
        str | None, typer.Option(help="Print what may follow this line, instead of the script. The script uses it.")
    ] = None,
) -> None:
    """Print a script with which the shell completes commands, options, and names of providers, traits and classes.

    For bash: `eval "$(stead completion bash)"`.
    """
    if line is None:
        script = _SCRIPTS[shell]
        print_json({"script": script}) if options().json else print(script, end="")
        return
    candidates = complete(line, _names, files=shell is Shell.FISH)
    if shell is Shell.BASH:
        typed = line.rpartition(" ")[2]
        begun = max(typed.rfind(sign) for sign in _WORD_BREAKS) + 1
        candidates = [each[begun:] for each in candidates]
    if options().json:
        print_json({"candidates": candidates})
    elif candidates:
        print("\n".join(each for each in candidates if printable(each) == each))


def complete(line: str, names: Callable[[str, str], list[str]], *, files: bool = False) -> list[str]:
    """The words that may stand where *line* ends, ascending.

    Args:
        names: called with a noun of :data:`BY_NOUN` and what was typed of the name.
        files: whether to complete the names of files too, for a shell that leaves that to the command.
    """
    words, typed = _split(line)
    command: Any = get_command(stead)
    positional = 0
    pending: Any = None
    for word in words[1:]:
        if pending is not None:
            _share(pending, word)
            pending = None
        elif word.startswith("-"):
            pending = _option(command, word)
        elif hasattr(command, "commands"):
            command = _below(command, word)
            if command is None:
                return []
        else:
            positional += 1
    if pending is not None:
        return _values(pending, typed, names, files=files)
    if typed.startswith("-"):
        return _flags(command, typed, names, files=files)
    if hasattr(command, "commands"):
        listed = [*command.list_commands(None), *(("help", "version") if hasattr(command, "load") else ())]
        return sorted(name for name in listed if name.startswith(typed))
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    if not arguments or (positional >= len(arguments) and arguments[-1].nargs == 1):
        return []
    return _values(arguments[min(positional, len(arguments) - 1)], typed, names, files=files)


def _flags(command: Any, typed: str, names: Callable[[str, str], list[str]], *, files: bool) -> list[str]:
    """Options that begin with *typed*, or the values of ``--option=``."""
    flag, equals, value = typed.partition("=")
    option = _option(command, flag) if equals else None
    if option is not None:
        return [f"{flag}={each}" for each in _values(option, value, names, files=files)]
    return sorted(flag for each in command.params for flag in each.opts if flag.startswith(typed) and flag != "-")


def _split(line: str) -> tuple[list[str], str]:
    """The whole words of *line*, and the one that is still typed."""
    for quote in ("", "'", '"'):  # the last word may be in quotes that are still open
        try:
            words = shlex.split(line + quote)
        except ValueError:
            continue
        is_whole = not quote and line[-1:].isspace()
        return (words, "") if is_whole or not words else (words[:-1], words[-1])
    return [], ""


def _below(group: Any, word: str) -> Any:
    load = getattr(group, "load", None)
    if load is None:
        return group.commands.get(word)
    name, *more = present_words([word])
    if name not in group.list_commands(None):
        return None
    command = load(name)
    for each in more:
        command = command.commands[each]
    return command


def _option(command: Any, word: str) -> Any:
    """The option of this name, if its value is the next word."""
    for each in command.params:
        if word in each.opts and not each.is_flag:
            return each
    return None


def _share(option: Any, value: str) -> None:
    """Let names be asked from the server that the line names."""
    if option.name == "url":
        use_options(replace(options(), url=value))
    elif option.name == "token":
        use_options(replace(options(), token=value))
    elif option.name == "data_dir":
        use_options(replace(options(), data_dir=Path(value)))


def _values(parameter: Any, typed: str, names: Callable[[str, str], list[str]], *, files: bool) -> list[str]:
    noun = parameter.metavar or ""
    if parameter.name == "shell":
        noun = "|".join(Shell)
    if "|" in noun:
        return sorted(choice for choice in noun.split("|") if choice.startswith(typed))
    if noun in _FILES:
        return sorted(glob(f"{escape(typed)}*")) if files else []  # noqa: PTH207  # as it was typed
    return sorted(names(noun, typed))


def _names(noun: str, typed: str) -> list[str]:
    """Names from the server; none if it cannot be asked: a shell shows no errors while one types."""
    from stead.cli.errors import CommandError
    from stead.cli.server import connect

    if noun not in BY_NOUN:
        return []
    try:
        with connect() as site:
            return [name for name in BY_NOUN[noun](site, typed) if name.startswith(typed)]
    except CommandError:
        return []


def _provider_names(site: Site, prefix: str) -> list[str]:
    """Names of providers; of a large site, those of the first trees that match."""
    from stead.client.errors import Unsupported

    try:
        trees = islice(site.trees(name=f"{prefix}*", fields="name", limit=_MOST_TREES), _MOST_TREES)
        return [provider.name for tree in trees for provider in tree]
    except Unsupported:
        return [provider.name for provider in site.providers()]


def _flavor_names(site: Site, _prefix: str) -> list[str]:
    from stead.client.errors import Unsupported

    try:
        return [flavor.name for flavor in site.flavors()]
    except Unsupported:
        return []


def _class_names(site: Site, _prefix: str) -> list[str]:
    return site.resource_classes()


def _trait_names(site: Site, prefix: str) -> list[str]:
    return site.traits(prefix)


BY_NOUN: dict[str, Callable[[Site, str], list[str]]] = {
    "CLASS": _class_names,
    "FLAVOR": _flavor_names,
    "HOST": _provider_names,
    "INVENTORY": _class_names,
    "PARENT": _provider_names,
    "PROVIDER": _provider_names,
    "TRAIT": _trait_names,
}
"""Names that may begin with what was typed, by what help calls the value of an option or argument."""
