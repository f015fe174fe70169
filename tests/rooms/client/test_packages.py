"""What importing the library loads, that its public names exist, and that the twins agree."""

import ast
import importlib
import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import stead
import stead.aio
from scripts import twins

SERVER_PACKAGES = {"alembic", "falcon", "numpy", "oslo_config", "oslo_log", "oslo_policy", "os_traits", "sqlalchemy"}

USE_OF_THE_CLIENT = """
import sys
import stead
print(" ".join(sys.modules))
stead.aio.connect("http://127.0.0.1:9")
site = stead.connect("http://127.0.0.1:9", "token", project="lab")
request = stead.Request.parse(str(stead.Request(stead.Group(VCPU=1))))
for name in set(stead.__all__) - {"open"}:
    getattr(stead, name)
print(" ".join(sys.modules))
"""


def test_the_client_loads_no_package_of_the_server():
    run = subprocess.run([sys.executable, "-c", USE_OF_THE_CLIENT], capture_output=True, text=True, check=True)
    after_import, after_use = (set(line.split()) for line in run.stdout.splitlines())
    assert not {name for name in after_import if name.startswith("stead.")}
    assert not {"httpx2", "asyncio"} & after_import
    assert not SERVER_PACKAGES & {name.partition(".")[0] for name in after_use}


def test_a_wheel_from_a_clean_checkout_has_the_synchronous_client(tmp_path):
    """It is generated as the wheel is built; in a checkout it is an ignored file."""
    for name in (
        "src",
        "scripts",
        "docs",
        "samples",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "hatch_build.py",
        ".gitignore",
    ):
        source = twins.ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name)
        else:
            shutil.copy(source, tmp_path / name)
    for path in twins.generated():
        (tmp_path / path.relative_to(twins.ROOT)).unlink()
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    with ZipFile(next((tmp_path / "dist").glob("*.whl"))) as wheel:
        for path, text in twins.generated().items():
            assert wheel.read(f"stead/client/blocking/{path.name}").decode() == text


def test_the_written_twins_have_the_same_functions():
    names = [
        {
            node.name
            for node in ast.parse((directory / "running.py").read_text()).body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for directory in (twins.SOURCE, twins.TARGET)
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("module", [stead, stead.aio], ids=["stead", "stead.aio"])
def test_every_public_name_exists_and_is_documented(module):
    assert module.__all__ == sorted(module.__all__, key=lambda name: (name[0].islower(), name))
    for name in set(module.__all__) - {"__version__"}:
        assert inspect.getdoc(getattr(module, name)), name


def test_the_names_that_python_lists_are_the_public_ones():
    assert dir(stead) == sorted([*stead.__all__, "aio", "testing"])


def test_the_lazy_names_are_those_of_type_checkers():
    tree = ast.parse(Path(stead.__file__).read_text())
    (branch,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {alias.name: node.module for node in branch.body for alias in node.names}
    assert imported.pop("aio") == "stead"  # a module, which is no public name
    assert imported == stead._PLACES
    assert set(imported) | {"__version__"} == set(stead.__all__)
    assert all(hasattr(importlib.import_module(module), name) for name, module in imported.items())


USERS_PROGRAM = """
import stead
from stead import Claim, Group, Node, NothingFits, Request


def place(site: stead.Site, job: Request) -> list[Claim]:
    try:
        return site.claim_all([job] * 2, "gang", distinct_hosts=True, wait=5)
    except NothingFits as error:
        reveal_type(error.explanation)
        return []


async def opened() -> stead.aio.Site:
    async with stead.aio.open("data") as site:
        await release(site)
    return await stead.aio.open("data", project="lab")


async def release(site: stead.aio.Site) -> int:
    site.apply(Node("host", VCPU=4))  # not awaited
    async for change in site.watch():
        reveal_type(change.generation)
    return "none"


def names(site: stead.Site) -> dict[str, str]:
    for claim in site.claims(project="lab"):
        claim.move(Request(Group(VCPU=1, required={"HW_A"})), until=3)
        return site.names(claim)
    return {provider.uuid: provider.name for provider in site.providers()}
"""


def test_type_checkers_of_users_see_the_types_and_find_mistakes(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(USERS_PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={tmp_path}", "program.py"]
    lines = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout.splitlines()
    printed = [line for line in lines if "error:" in line or "Revealed" in line]
    assert len(printed) == 5, printed
    assert "stead.client.candidate.Explanation" in printed[0]
    assert "unused-coroutine" in printed[1]
    assert "int | None" in printed[2]
    assert "return-value" in printed[3]
    assert "call-arg" in printed[4]
