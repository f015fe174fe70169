"""Database URLs as operators write them become URLs that work here."""

from importlib.util import find_spec

import pytest

from stead.config import ConfigError
from stead.config.masking import complete_url

MYSQL = "mysqldb" if find_spec("MySQLdb") else "pymysql"


@pytest.mark.parametrize(
    ("written", "complete"),
    [
        ("sqlite:////srv/p.db", "sqlite:////srv/p.db"),
        ("sqlite://", "sqlite://"),
        ("mysql://u:p%40ss@h:3307/d", f"mysql+{MYSQL}://u:p%40ss@h:3307/d"),
        ("mariadb://u@h/d", f"mariadb+{MYSQL}://u@h/d"),
        ("postgresql://u:p@h/d?sslmode=require", "postgresql+psycopg://u:p@h/d?sslmode=require"),
        ("postgres://u:p@h/d", "postgresql+psycopg://u:p@h/d"),
        ("postgresql+psycopg://u:p@h/d", "postgresql+psycopg://u:p@h/d"),
        ("mysql+pymysql://u@h/d", "mysql+pymysql://u@h/d"),
    ],
)
@pytest.mark.skipif(not (find_spec("psycopg") and find_spec("pymysql")), reason="needs the extras postgresql and mysql")
def test_a_url_gets_the_driver_that_is_installed(written, complete):
    assert complete_url(written) == complete


@pytest.mark.skipif(not find_spec("psycopg"), reason="needs the extra postgresql")
def test_a_driver_that_the_store_can_not_work_with_is_replaced_by_its_sibling():
    assert complete_url("postgresql+psycopg2://u@h/d") == "postgresql+psycopg://u@h/d"


def test_parameters_are_appended():
    assert complete_url("sqlite:////p.db", "timeout=3&cache=shared") == "sqlite:////p.db?timeout=3&cache=shared"
    assert complete_url("sqlite:////p.db?timeout=3", "cache=shared") == "sqlite:////p.db?timeout=3&cache=shared"


@pytest.mark.parametrize("url", ["placement", "://", "mysql:/u:hunter2@h", "mysql://u:hunter2@h:port/d"])
def test_what_is_no_url_is_refused_without_showing_it(url):
    with pytest.raises(ConfigError) as caught:
        complete_url(url)
    assert "hunter2" not in str(caught.value)


def test_without_any_driver_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("stead.config.masking._DRIVERS", {"mysql": ("mysql", [("x", "a_driver_that_is_not_here")])})
    with pytest.raises(ConfigError, match=r"stead\[mysql\]"):
        complete_url("mysql://u@h/d")
