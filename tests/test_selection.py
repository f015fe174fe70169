import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.statements import lacking

SAMPLE = """
import pytest
from hypothesis import given, settings, strategies
from tests.selection import examples

def test_plain(): ...

@pytest.mark.parametrize("number", range(4))
def test_cases(number): ...

@pytest.mark.parametrize("number", range(4))
def test_cases_of_a_database(database_server, number): ...

def test_of_a_database(database_server): ...

@pytest.mark.every_database
def test_of_every_database(database_server): ...

@pytest.mark.costly
@pytest.mark.parametrize("number", range(4))
def test_costly(database_server, number): ...

@pytest.mark.timeout(1000)  # which makes it costly
@pytest.mark.parametrize("number", range(4))
def test_long(number): ...

@pytest.mark.parametrize("one", range(3))
@pytest.mark.parametrize("two", range(3))
@pytest.mark.parametrize("three", range(3))
def test_product(one, two, three): ...

@pytest.mark.each_value
@pytest.mark.parametrize("one", range(3))
@pytest.mark.parametrize("two", range(3))
def test_values(one, two): ...

@settings(max_examples=examples(400))
@given(strategies.integers())
def test_property(number): ...

@pytest.mark.property
def test_own_examples(): ...
"""


def collected(directory: Path, *options: str) -> set[str]:
    """The names of the items of SAMPLE that a run with *options* has."""
    (directory / "test_sample.py").write_text(SAMPLE)
    (directory / "conftest.py").write_text(
        "pytest_plugins = ['tests.databases', 'tests.selection']\n"
        "def pytest_addoption(parser): parser.addoption('--api-url')\n"
    )
    (directory / "pytest.ini").write_text("[pytest]\ntimeout = 60\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--collect-only", *options, "."]
    root = str(Path(__file__).parent.parent)
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, check=True
    )
    return {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str], set[str]]:
    """All items of the sample, those of the quick run, and those of the rest."""
    directory = tmp_path_factory.mktemp("sample")
    every, quick, rest = (collected(directory, *options) for options in ([], ["--run", "quick"], ["--run", "rest"]))
    return every, quick, rest


def of(items: set[str], function: str) -> list[str]:
    return sorted(item for item in items if item.partition("[")[0] == function)


def test_both_runs_together_have_everything(runs: tuple[set[str], set[str], set[str]]) -> None:
    every, quick, rest = runs
    assert quick | rest == every
    assert quick & rest == {"test_property", "test_own_examples"}  # with all its examples


def test_the_quick_run_has_every_function_and_every_case_once(runs: tuple[set[str], set[str], set[str]]) -> None:
    every, quick, _ = runs
    assert {item.partition("[")[0] for item in quick} == {item.partition("[")[0] for item in every}
    assert len(of(quick, "test_cases")) == 4
    cases = [item.partition("[")[2].removesuffix("]").split("-") for item in of(quick, "test_cases_of_a_database")]
    assert sorted(number for _, number in cases) == list("0123")
    assert {kind for kind, _ in cases} == {"sqlite", "postgresql", "mariadb"}
    assert len(of(quick, "test_of_a_database")) == 1


def test_a_test_of_sql_has_every_database(runs: tuple[set[str], set[str], set[str]]) -> None:
    assert len(of(runs[1], "test_of_every_database")) == 3


@pytest.mark.parametrize("function", ["test_costly", "test_long"])
def test_of_a_test_that_takes_long_the_quick_run_has_one_case(
    runs: tuple[set[str], set[str], set[str]], function: str
) -> None:
    assert len(of(runs[1], function)) == 1


def test_a_product_of_three_parameters_is_covered_by_pairs(runs: tuple[set[str], set[str], set[str]]) -> None:
    cases = [item.partition("[")[2].removesuffix("]").split("-") for item in of(runs[1], "test_product")]
    assert len(cases) < 27
    for first, second in [(0, 1), (0, 2), (1, 2)]:
        assert len({(case[first], case[second]) for case in cases}) == 9


def test_each_value_of_a_parameter_is_there(runs: tuple[set[str], set[str], set[str]]) -> None:
    cases = [item.partition("[")[2].removesuffix("]").split("-") for item in of(runs[1], "test_values")]
    assert len(cases) < 9
    assert [{case[place] for case in cases} for place in (0, 1)] == [{"0", "1", "2"}] * 2


def test_a_statement_that_one_database_lacks_is_named() -> None:
    every = {"sqlite", "postgresql", "mariadb"}
    assert lacking({"traits.py:delete:90": every, "names.py:add:10": {"sqlite", "mariadb"}}) == [
        "names.py:add:10: only on mariadb, sqlite"
    ]
