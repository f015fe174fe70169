"""Every block of the pages with a command is run by a test, or named with the reason why it cannot be."""

import ast
import re
from pathlib import Path

import pytest

from scripts.language import pages
from tests.checkout import ROOT
from tests.docs.blocks import NOT_RUN, NOT_RUN_PAGES, RUN_BY, Block, blocks_of
from tests.docs.console import commands_of

BLOCKS = [
    block for page in pages() for block in blocks_of(page) if block.page not in NOT_RUN_PAGES and block.has_command
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}:{block.line}")
def test_a_block_with_a_command_is_run(block: Block) -> None:
    """Tests run the blocks of the language ``console``."""
    if block.is_run:
        assert block.page in RUN_BY
        assert block.language == "console"
        assert block.text.startswith("$ ")


def test_what_is_not_run_exists() -> None:
    starts = {(page, start) for page, start in NOT_RUN for block in BLOCKS if block.page == page}
    assert starts == set(NOT_RUN)
    for page, start in NOT_RUN:
        assert sum(block.page == page and block.text.startswith(start) for block in BLOCKS) == 1, (page, start)


def test_each_page_that_a_test_runs_has_commands() -> None:
    assert {block.page for block in BLOCKS if block.is_run} == set(RUN_BY)


@pytest.mark.parametrize("page", RUN_BY)
def test_the_test_that_runs_a_page_reads_this_page(page: str) -> None:
    file, _, name = RUN_BY[page].partition("::")
    tree = ast.parse((ROOT / file).read_text())
    (function,) = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name]
    assert f'"{page}"' in ast.unparse(function).replace("'", '"')
    assert "commands_of(" in ast.unparse(function)


@pytest.mark.parametrize("page", RUN_BY)
def test_a_page_sets_the_variables_that_its_commands_read(page: str) -> None:
    """A reader who pastes them has no others than those of every shell."""
    known = {"HOME", "PWD"}
    for command in commands_of(next(path for path in pages() if path.name == page)):
        known |= set(re.findall(r"\b([A-Za-z_]\w*)=", command.text))
        loops = re.findall(r"\b(?:for|read) ([\w ]+?)(?: in |;|<|$)", command.text)
        known |= {name for names in loops for name in names.split()}
        if re.search(r"\bstead\b.* run ", command.text):
            known |= {"CUDA_VISIBLE_DEVICES"}  # which it sets for the command
        assert set(re.findall(r"\$\{?([A-Za-z_]\w*)(?!\w|:-)", command.text)) <= known, command.text


def test_blocks_are_found_in_every_form(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("""\
# A page

```yaml
a: 1
```

1. An item

   ```console
   $ stead tree
   hostA
   ```

With `code`:

    venv/bin/pip install stead

```text
a stead tree
```

    stead: no command
""")
    assert list(blocks_of(page)) == [
        Block("page.md", 3, "yaml", "a: 1\n"),
        Block("page.md", 9, "console", "$ stead tree\nhostA\n"),
        Block("page.md", 18, "text", "a stead tree\n"),
        Block("page.md", 16, "", "venv/bin/pip install stead\n"),
        Block("page.md", 22, "", "stead: no command\n"),
    ]
    assert [block.has_command for block in blocks_of(page)] == [False, True, False, True, False]
