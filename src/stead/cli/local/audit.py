"""``stead audit``: checks the allocations and inventories of a database, and repairs them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli.arguments import options
from stead.cli.errors import NO, CommandError
from stead.cli.local.db import ConfigFile, open_store
from stead.cli.server import service_settings
from stead.cli.terminal import line_width, print_json, progress, show_lines
from stead.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.cli.text import Text
    from stead.store.audit.checks import Fault, Finding

app = typer.Typer(add_completion=False)

SHOWN = 20
"""Maximum number of findings of one fault in the table; JSON has all of them."""


@app.command()
def audit(
    config_file: ConfigFile = None,
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired safely.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Repair without asking.")] = False,
) -> int:
    """Check the allocations and inventories of a Placement database; exit code 1 if anything is wrong."""
    if yes and not repair:
        raise CommandError("--yes is for --repair")
    if repair and options().json and not yes:
        raise CommandError("--json asks nothing: give --yes with --repair")
    from stead.store.audit import checks, repairs

    with open_store(config_file) as store:
        with progress("checking") as watch:
            findings = store.read(checks.audit, watch)
        repaired = [finding for finding in findings if repair and finding.fault.value.is_repaired]
        if not options().json:
            _tell(findings, all_repaired=repair)
        if repaired and (yes or _agreed(f"Repair {len(repaired)} of {len(findings)}?")):
            with progress("repairing") as watch:
                owner = service_settings(config_file, None).allocations
                repairs.repair(
                    store,
                    repaired,
                    watch,
                    project=owner.incomplete_project_id,
                    user=owner.incomplete_user_id,
                )
            with progress("checking") as watch:
                findings = store.read(checks.audit, watch)
            if not options().json:
                _tell(findings, all_repaired=False)
        else:
            repaired = []
    if options().json:
        print_json(_as_json(findings, repaired))
    return NO if findings else 0


def _agreed(question: str) -> bool:
    """Whether the user answered yes; the end of the input counts as no."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        return False


def _tell(findings: Sequence[Finding], *, all_repaired: bool) -> None:
    """Show the findings by fault. *all_repaired* shows all findings that a repair is about to fix."""
    if not findings:
        print("no errors found")
    for fault, group in groupby(findings, key=lambda finding: finding.fault):
        most = None if all_repaired and fault.value.is_repaired else SHOWN
        show_lines(_lines(fault, list(group), most, line_width()))


def _lines(fault: Fault, findings: Sequence[Finding], most: int | None, width: int) -> Iterator[Text]:
    """The fault, its findings, and what to do, in lines of at most *width* cells."""
    from stead.cli.terminal import beside, lay_out, widest, wrapped
    from stead.cli.text import Text

    yield from wrapped(Text(f"{fault.slug}: {fault.value.meaning} ({len(findings)})", style="bold"), width)
    rows = [(f"  {printable(finding.subject)}", printable(finding.detail)) for finding in findings[:most]]
    if most is not None and len(findings) > most:
        rows.append((f"  and {len(findings) - most} more", "--json shows all"))
    columns = lay_out(
        (Text(subject).cell_len for subject, _ in rows), min(widest(d for _, d in rows), width // 2), width
    )
    for subject, detail in rows:
        yield from beside(Text(subject), [Text(detail)], columns, indent=4)
    yield from wrapped(Text(fault.value.help), width)


def _as_json(findings: Sequence[Finding], repaired: Sequence[Finding]) -> dict[str, Any]:
    return {
        "clean": not findings,
        "faults": {
            fault.slug: {"meaning": fault.value.meaning, "help": fault.value.help, "count": len(list(group))}
            for fault, group in groupby(findings, key=lambda finding: finding.fault)
        },
        "findings": [_row(finding) for finding in findings],
        "repaired": [_row(finding) for finding in repaired],
    }


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "fault": finding.fault.slug,
        "subject": finding.subject,
        "detail": finding.detail,
        "repairable": finding.fault.value.is_repaired,
    }
