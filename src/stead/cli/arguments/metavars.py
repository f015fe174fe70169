"""Metavars of options and arguments in help and usage: nouns, such as ``PROJECT``, never Python types."""

from __future__ import annotations

from typing import Any

_NOUNS = {
    "config_dir": "DIRECTORY",
    "config_file": "FILE",
    "data_dir": "DIRECTORY",
    "host": "ADDRESS",
    "limit": "COUNT",
    "shared": "THREADS",
    "port": "NUMBER",
    "threads": "COUNT",
    "workers": "COUNT",
    "wait": "SECONDS",
}
"""Metavars that differ from the parameter's name."""


def name_values(command: Any) -> None:
    """Set the metavar of each parameter of *command* and all its subcommands to a noun; flags get none.

    An explicit ``metavar`` of a parameter is kept.
    """
    for below in getattr(command, "commands", {}).values():
        name_values(below)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.metavar = parameter.metavar or _noun(parameter)
            parameter.display_type_rich = _nothing  # otherwise Typer shows the type beside the metavar
        else:
            parameter.metavar = "" if parameter.is_flag else parameter.metavar or _noun(parameter)
    all_parameters = command.get_params

    def without_types(context: Any) -> Any:
        parameters = all_parameters(context)
        for parameter in parameters:
            if getattr(parameter, "is_flag", False) or parameter.is_eager:  # options that Typer adds, such as --help
                parameter.metavar = ""
        return parameters

    command.get_params = without_types


def _noun(parameter: Any) -> str:
    """The last word of the name: ``TYPE`` of ``--consumer-type``."""
    name = str(parameter.name)
    return _NOUNS.get(name) or name.rstrip("_").rpartition("_")[2].upper()


def _nothing(**_: Any) -> None:
    """No type."""
