"""``placement-status``: deployment checks under the command name that operators and their tools already use."""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from stead.cli.placement.deployment import complain, load_deployment, open_database, read_arguments

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from stead.config import Settings
    from stead.store.protocol.store import Store

TITLE = "Upgrade Check Results"
UNEXPECTED = 255
WIDTH = 60  # characters of details in a line

MIGRATE = 'Run "placement-manage db online_data_migrations".'


class Result(IntEnum):
    """The result of a check; the worst one is the exit code."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


@dataclass(frozen=True, slots=True)
class Check:
    """A completed check; *details* say what is wrong and what to do."""

    name: str
    result: Result = Result.SUCCESS
    details: str | None = None


def main() -> None:
    """Run the process's command line, and end the process with the exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run ``placement-status``; returns the exit code.

    Raises:
        SystemExit: wrong usage (2), or after ``--help`` (0).
    """
    from stead.config import ConfigError

    try:
        conf = read_arguments(
            arguments,
            program="placement-status",
            description="Say whether a deployment is ready.",
            commands=_add_commands,
        )
        settings = load_deployment(conf)
    except ConfigError as error:
        return complain("placement-status", error)
    try:
        checks = check(settings)
    except Exception:  # also unexpected errors: tools distinguish them from a failed check by the exit code
        print(f"Error:\n{traceback.format_exc()}")
        return UNEXPECTED
    print(as_json(checks) if conf.command.json else table(checks))
    return max(each.result for each in checks)


def _add_commands(parsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    upgrade = parsers.add_parser("upgrade", help="Whether the deployment is ready for the next release.")
    upgrade.add_argument("check", choices=["check"], metavar="check", help="Make all checks.")
    upgrade.add_argument("--json", action="store_true", help="Print JSON.")


def check(settings: Settings) -> list[Check]:
    """All checks of the deployment that *settings* describe, in the order of the output.

    Raises:
        Unavailable: the database does not answer.
        OSError: the policy file cannot be read.
    """
    with open_database(settings) as store:
        return [_check_roots(store), _check_consumers(store), _check_policy_file(settings)]


def _check_roots(store: Store) -> Check:
    from stead.store.schema.adoption import has_providers_without_root

    name = "Missing Root Provider IDs"
    if store.read(has_providers_without_root):
        return Check(name, Result.FAILURE, f"There are resource providers without a root. {MIGRATE}")
    return Check(name)


def _check_consumers(store: Store) -> Check:
    from stead.store.schema.adoption import count_incomplete_consumers

    name = "Incomplete Consumers"
    if missing := store.read(count_incomplete_consumers):
        return Check(name, Result.WARNING, f"Consumers that hold allocations and do not exist: {missing}. {MIGRATE}")
    return Check(name)


def _check_policy_file(settings: Settings) -> Check:
    from oslo_policy.policy import Enforcer

    name = "Policy File JSON to YAML Migration"
    file = settings.conf.find_file(Enforcer(settings.conf).policy_file)
    if file is not None and _is_json(Path(file).read_text(encoding="utf-8")):
        return Check(
            name,
            Result.FAILURE,
            f"The policy file {file} is JSON. Make it YAML with oslopolicy-convert-json-to-yaml, and name the new file "
            "in [oslo_policy] policy_file.",
        )
    return Check(name)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def as_json(checks: Sequence[Check]) -> str:
    """The checks as JSON; each result is the exit code for that check alone."""
    rows = [{"check": each.name, "result": int(each.result), "details": each.details} for each in checks]
    return json.dumps({"name": TITLE, "checks": rows})


def table(checks: Sequence[Check]) -> str:
    """The checks in the format that operators know."""
    blocks = [[TITLE]]
    blocks += [
        [
            f"Check: {each.name}",
            f"Result: {each.result.name.capitalize()}",
            *f"Details: {_folded(str(each.details))}".splitlines(),
        ]
        for each in checks
    ]
    width = max(len(line) for block in blocks for line in block)
    rule = f"+{'-' * (width + 2)}+"
    lines = [rule]
    for block in blocks:
        lines += [*(f"| {line:<{width}} |" for line in block), rule]
    return "\n".join(lines)


def _folded(details: str) -> str:
    return "\n".join(wrap(details, WIDTH, subsequent_indent="  ", break_on_hyphens=False))
