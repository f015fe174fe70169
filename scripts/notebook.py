"""Run the notebook of ``samples/notebooks`` and store its outputs.

    python -m scripts.notebook          # write them
    python -m scripts.notebook --check  # exit 1 if they differ

Cells run in this process, as Jupyter runs them: what the last expression of a cell returns is its output, as text and,
if it has one, as HTML. So no kernel needs to be installed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

from stead import testing

NOTEBOOK = Path(__file__).parent.parent / "samples/notebooks/capacity.ipynb"

Json = dict[str, Any]


def executed(notebook: Json) -> Json:
    """*notebook* with the outputs of its cells, which run one after another."""
    names: dict[str, Any] = {"__name__": "__main__"}
    made: Json = json.loads(json.dumps(notebook))
    with testing.deterministic_uuids():
        for number, cell in enumerate((cell for cell in made["cells"] if cell["cell_type"] == "code"), start=1):
            cell["execution_count"] = number
            cell["outputs"] = _run("".join(cell["source"]), names, number)
    return made


def _run(source: str, names: Json, number: int) -> list[Json]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[Json] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = _lines(value._repr_html_())
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Write the outputs, or compare them."""
    before = NOTEBOOK.read_text()
    now = json.dumps(executed(json.loads(before)), indent=1, ensure_ascii=False) + "\n"
    if "--check" not in sys.argv[1:]:
        NOTEBOOK.write_text(now)
    elif now != before:
        sys.exit("run `python -m scripts.notebook`")


if __name__ == "__main__":
    main()
