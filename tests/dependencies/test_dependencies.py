"""What pyproject.toml says of the dependencies is what the code needs of them. `make lowest` runs with the lowest."""

import importlib
import pkgutil
import re
import tomllib
from importlib.metadata import packages_distributions, version

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import versions
from tests.dependencies.imports import OURS, ROOT, has, imported, imported_packages, private_names, trees

pytestmark = pytest.mark.one_database

# Names without a promise that this project uses, by dependency. A name that has gone, or means something else, is found
# here and not by an operator; and a version in which it may be gone is not installed.
UNPROMISED = {
    "alembic": {"alembic.script.ScriptDirectory": ["_upgrade_revs", "_downgrade_revs"]},
    "falcon": {"falcon.App": ["_router"]},
    "oslo.config": {"oslo_config.cfg.ConfigOpts": ["_get_opt_info", "_groups"]},
    "oslo.policy": {"oslo_policy": ["_parser"]},  # its logger
    "prometheus-client": {"prometheus_client.utils": ["floatToGoString"]},
    "psycopg": {"psycopg.Connection": ["wait"]},
    "pytest-timeout": {"pytest_timeout": ["_get_item_settings"]},
    "SQLAlchemy": {
        "sqlalchemy.QueuePool": ["_max_overflow"],
        "sqlalchemy.engine.Connection": ["dispatch"],
        "sqlalchemy.exc.DBAPIError": ["instance"],
    },
    "typer": {
        "typer.core": ["TyperGroup", "TyperCommand"],
        "typer.core.TyperArgument": ["display_type_rich", "get_runtime_param"],
        "typer.core.TyperOption": ["get_runtime_param"],
    },
}


def name_of(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


PROJECT = tomllib.loads(versions.PYPROJECT.read_text())["project"]
BOUNDS = {name_of(one): Requirement(one).specifier for one in versions.requirements()}
TYPES_ONLY = "types-"


def test_every_dependency_has_a_lower_bound():
    unbounded = [name for name, bound in BOUNDS.items() if not any(specifier.operator == ">=" for specifier in bound)]
    assert [name for name in unbounded if not name.startswith(TYPES_ONLY)] == []


LOCK = re.compile(
    r"^(?P<pin>[a-z0-9.-]+==\S+(?: ; [^\\]+?)?) \\\n(?P<hashes>(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.MULTILINE,
)


def locked(name: str) -> dict[str, set[str]]:
    """The versions of each dependency in a lock file: several if they depend on the version of Python."""
    pins: dict[str, set[str]] = {}
    for match in LOCK.finditer((versions.ROOT / "locks" / f"{name}.txt").read_text()):
        requirement = Requirement(match["pin"])
        (pin,) = requirement.specifier
        pins.setdefault(canonicalize_name(requirement.name), set()).add(pin.version)
    return pins


@pytest.mark.parametrize("name", versions.LOCKS)
def test_the_lock_has_an_allowed_version_of_every_requirement(name: str):
    """`make lock` brings the files up to date with pyproject.toml."""
    pins = locked(name)
    for line in versions.requirements(versions.LOCKS[name]):
        requirement = Requirement(line)
        locked_versions = pins[canonicalize_name(requirement.name)]
        assert all(requirement.specifier.contains(each) for each in locked_versions), line


@pytest.mark.parametrize("name", [*versions.LOCKS, *versions.OTHER_LOCKS])
def test_the_lock_has_hashes_and_names_no_index(name: str):
    text = (versions.ROOT / "locks" / f"{name}.txt").read_text()
    assert LOCK.sub("", text) == ""


@pytest.mark.parametrize("name", versions.OTHER_LOCKS)
def test_the_lock_of_another_environment_has_its_requirements(name: str):
    pins = locked(name)
    lines = versions.OTHER_LOCKS[name].read_text().splitlines()
    for requirement in (Requirement(line) for line in lines if not line.startswith("#")):
        assert all(requirement.specifier.contains(each) for each in pins[canonicalize_name(requirement.name)])


def test_both_locks_have_the_same_versions():
    whole = locked("for-development")
    assert {name: pins for name, pins in locked("for-use").items() if not pins <= whole.get(name, set())} == {}


def test_the_lowest_versions_are_those_of_pyproject():
    lines = {name_of(line): Requirement(line).specifier for line in versions.constraints()}
    assert set(lines) == {name for name in BOUNDS if not name.startswith(TYPES_ONLY)}
    for name, pinned in lines.items():
        (version,) = (specifier.version for specifier in pinned)
        assert f">={version}" in {str(specifier) for specifier in BOUNDS[name]}


def test_what_is_imported_is_declared():
    distributions = packages_distributions()
    undeclared = {
        (str(file.relative_to(ROOT)), package)
        for file, tree in trees().items()
        for package in imported_packages(tree)
        if not {canonicalize_name(name) for name in distributions.get(package, [package])} & set(BOUNDS)
    }
    assert undeclared == set()


@pytest.mark.filterwarnings("ignore:'cgi' is deprecated:DeprecationWarning")  # of WebOb, below keystonemiddleware
def test_what_the_service_imports_can_be_imported():
    """Elsewhere a test without its extra is skipped, and an extra that cannot be imported looks the same."""
    imports = {
        (module, name)
        for file, tree in trees().items()
        if file.is_relative_to(ROOT / "src") or file.is_relative_to(ROOT / "distributions/wsgi-lanes/src")
        for _, module, name in imported(tree)
        if module.partition(".")[0] not in OURS and module != "__future__"
    }
    for module, name in sorted(imports):
        if not (name and has(importlib.import_module(module), name)):
            importlib.import_module(f"{module}.{name}" if name else module)


@pytest.mark.parametrize("name", UNPROMISED)
def test_a_dependency_of_which_more_is_used_than_it_promises_has_an_upper_bound(name):
    assert any(specifier.operator == "<" for specifier in BOUNDS[canonicalize_name(name)])


@pytest.mark.parametrize(
    ("owner", "name"),
    [(owner, name) for names in UNPROMISED.values() for owner, listed in names.items() for name in listed],
)
def test_a_name_without_a_promise_exists(owner, name):
    if not has(pkgutil.resolve_name(owner), name):
        pkgutil.resolve_name(f"{owner}.{name}")  # a module


def test_every_private_name_of_a_dependency_is_listed_here():
    listed = {name for names in UNPROMISED.values() for listed in names.values() for name in listed}
    used = private_names(trees())
    assert {name: sorted(map(str, files)) for name, files in used.items() if name not in listed} == {}
    assert {name for name in listed if name.startswith("_")} - set(used) <= {"_parser"}  # which a string names


def test_wrong_usage_is_what_typer_says_of_a_bad_parameter():
    assert typer.BadParameter.__mro__[1].__name__ == "UsageError"
    assert issubclass(typer.BadParameter.__mro__[1], Exception)


def test_the_installed_versions_are_those_that_are_asked_for():
    """An environment that is older than pyproject.toml tests something else."""
    names = [name_of(requirement) for requirement in PROJECT["dependencies"]]
    assert {name: version(name) for name in names if version(name) not in BOUNDS[name]} == {}


def test_the_versions_of_python_are_those_that_are_supported():
    named = [classifier.rpartition(" ")[2] for classifier in PROJECT["classifiers"] if "Python :: 3." in classifier]
    assert PROJECT["requires-python"] == f">={named[0]}"
