"""The embedded mode is entered only when nobody configured anything."""

import os
from pathlib import Path

import pytest

from stead.config import ConfigError, load, resolve_data_dir

CONNECTION = "OS_PLACEMENT_DATABASE__CONNECTION"


def test_without_any_configuration_the_service_is_embedded(tmp_path):
    settings = load(data_dir=tmp_path / "data")
    assert settings.embedded
    assert settings.auth_strategy == "token"
    assert settings.token_file == tmp_path / "data" / "tokens.json"
    assert settings.database.url == f"sqlite:///{tmp_path}/data/stead.db"
    assert settings.database.sync_on_startup is True
    assert settings.data_dir == tmp_path / "data"
    assert not settings.data_dir.exists()


def test_the_embedded_strategy_can_be_chosen_by_environment(monkeypatch):
    monkeypatch.setenv("OS_API__AUTH_STRATEGY", "noauth2")
    settings = load()
    assert (settings.embedded, settings.auth_strategy) == (True, "noauth2")


def test_a_connection_in_the_environment_ends_the_embedded_mode(monkeypatch):
    monkeypatch.setenv(CONNECTION, "sqlite:///x.db")
    settings = load()
    assert (settings.embedded, settings.auth_strategy, settings.database.sync_on_startup) == (False, "keystone", False)


def test_an_empty_connection_in_the_environment_is_an_error(monkeypatch):
    monkeypatch.setenv(CONNECTION, "")
    with pytest.raises(ConfigError, match="connection is required"):
        load()


@pytest.mark.parametrize("place", [".placement/placement.conf", "placement.conf", ".placement/placement.conf.d/a.conf"])
def test_a_file_without_connection_in_a_usual_place_is_an_error(no_configuration_of_this_machine, place):
    path = no_configuration_of_this_machine / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[placement_database]\nconection = sqlite:///typo.db\n")
    with pytest.raises(ConfigError, match="connection is required"):
        load()


def test_a_given_file_without_connection_is_an_error(tmp_path):
    path = tmp_path / "other.conf"
    path.write_text("[placement]\n")
    with pytest.raises(ConfigError, match="connection is required"):
        load([path])


def test_the_first_usual_place_wins(no_configuration_of_this_machine):
    home = no_configuration_of_this_machine
    (home / ".placement").mkdir()
    (home / "placement.conf").write_text("[placement_database]\nconnection = sqlite:///second.db\n")
    assert load().database.url == "sqlite:///second.db"
    (home / ".placement" / "placement.conf").write_text("[placement_database]\nconnection = sqlite:///first.db\n")
    assert load().database.url == "sqlite:///first.db"


def test_the_wsgi_variable_names_the_directory_of_the_file(tmp_path, monkeypatch):
    (tmp_path / "placement.conf").write_text("[placement_database]\nconnection = sqlite:///there.db\n")
    monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", str(tmp_path))
    assert load().database.url == "sqlite:///there.db"


@pytest.mark.parametrize("variable", ["OS_PLACEMENT_CONFIG_DIR", "STEAD_CONFIG_FILE", "STEAD_CONFIG_DIR"])
def test_a_variable_that_names_nothing_is_an_error_and_never_embedded(tmp_path, monkeypatch, variable):
    monkeypatch.setenv(variable, str(tmp_path / "typo"))
    with pytest.raises(ConfigError, match="typo"):
        load()


def test_an_empty_wsgi_variable_counts_as_unset(monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", "")
    assert load().embedded


def test_several_files_can_be_named_by_the_variable(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).write_text(f"[placement_database]\nconnection = sqlite:///{name}.db\n")
    monkeypatch.setenv("STEAD_CONFIG_FILE", os.pathsep.join(str(tmp_path / name) for name in "ab"))
    assert load().database.url == "sqlite:///b.db"


def test_a_place_that_cannot_be_searched_is_an_error(no_configuration_of_this_machine):
    (no_configuration_of_this_machine / ".placement").symlink_to(".placement")  # a loop: root cannot look either
    with pytest.raises(ConfigError, match="cannot tell whether"):
        load()


def test_the_data_directory_is_chosen_by_option_then_variable_then_user(monkeypatch, no_configuration_of_this_machine):
    home = no_configuration_of_this_machine
    assert resolve_data_dir() == home / ".local/share/stead"
    monkeypatch.setenv("STEAD_DATA_DIR", "~/a")
    assert resolve_data_dir() == load().data_dir == home / "a"
    assert resolve_data_dir(Path("c")) == load(data_dir=Path("c")).data_dir == Path.cwd() / "c"
