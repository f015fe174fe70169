"""The commands of a page are read as a shell reads them when a reader pastes them."""

from pathlib import Path

import pytest

from tests.docs.console import Command, commands_of

PAGE = """\
```console
$ cat > site.yaml <<END
providers:
$ - name: host
END
$ stead topology apply site.yaml \\
    --dry-run
1  providers described
> no prompt
$ for n in 1 2; do
  echo '{"a":
 1}'
done
…
```
"""


def test_a_command_ends_where_the_shell_ends_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert commands_of(page) == [
        Command("cat > site.yaml <<END\nproviders:\n$ - name: host\nEND\n"),
        Command("stead topology apply site.yaml \\\n    --dry-run\n", ["1  providers described\n", "> no prompt\n"]),
        Command("for n in 1 2; do\n  echo '{\"a\":\n 1}'\ndone\n", ["…\n"]),
    ]


@pytest.mark.parametrize("command", ["cat <<END\n", "echo '\n", "stead tree \\\n", "for n in 1; do\n"])
def test_a_command_without_an_end_is_found(tmp_path: Path, command: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```console\n$ {command}```\n")
    with pytest.raises(AssertionError, match="the block ends in a command"):
        commands_of(page)
