"""What an operator is told of the configuration: what is in effect, where it comes from, and what can be written."""

import io
import json
import logging

import pytest

from stead.cli.app import run
from stead.config import ConfigError, load
from stead.config.masking import masked, masked_parameters, masked_url
from stead.config.report import report, write_sample

# What keystonemiddleware imports, imports it.
pytestmark = pytest.mark.filterwarnings("ignore:'cgi' is deprecated:DeprecationWarning")

SECRET = "hunter2"


@pytest.fixture
def conf_file(tmp_path):
    def write(text, name="placement.conf"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def shown(settings):
    return {
        (each.group, each.name): (each.value, each.origin) for each in report(settings.conf, settings.data_dir).shown
    }


def test_every_value_is_told_with_where_it_comes_from(conf_file, monkeypatch):
    first = conf_file(
        "[placement_database]\nconnection = sqlite:///a.db\nmax_pool_size = 3\nmax_overflow = 4\n", "1.conf"
    )
    second = conf_file("[placement_database]\nmax_pool_size = 5\n[DEFAULT]\ndebug = true\n", "more/2.conf")
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__POOL_TIMEOUT", "6")
    values = shown(load([first], [second.parent]))
    assert values["placement_database", "connection"] == ("sqlite:///a.db", str(first))
    assert values["placement_database", "max_pool_size"] == ("5", str(second))
    assert values["placement_database", "max_overflow"] == ("4", str(first))
    assert values["placement_database", "pool_timeout"] == ("6", "OS_PLACEMENT_DATABASE__POOL_TIMEOUT")
    assert values["placement_database", "slave_connection"] == (None, "default")
    assert values["cors", "allow_methods"] == ("GET,PUT,POST,DELETE,PATCH", "default")
    assert values["DEFAULT", "debug"] == ("true", str(second))
    assert values["oslo_policy", "policy_file"] == ("policy.yaml", "default")


def test_a_value_in_its_old_place_is_told_with_a_warning(conf_file, caplog):
    path = conf_file("[DEFAULT]\nauth_strategy = noauth2\n[placement_database]\nconnection = sqlite:///a.db\n")
    assert shown(load([path]))["api", "auth_strategy"] == ("noauth2", str(path))
    assert any("auth_strategy" in line and "deprecated" in line for line in caplog.messages)


def test_embedded_the_mode_decides(tmp_path):
    values = shown(load(data_dir=tmp_path))
    assert values["api", "auth_strategy"] == ("token", "embedded mode")
    assert values["placement_database", "connection"] == (f"sqlite:///{tmp_path}/stead.db", "embedded mode")
    assert values["stead", "token_file"] == (f"{tmp_path}/tokens.json", "embedded mode")


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_the_command_masks_every_secret_and_names_what_nobody_reads(conf_file, capsys, as_json):
    path = conf_file(
        f"[placement_database]\nconnection = mysql+pymysql://u:{SECRET}@h/d?ssl_key={SECRET}\n"
        f"connection_parameters = charset=utf8&password={SECRET}\nslave_connection = what: {SECRET}\n"
        f"[keystone_authtoken]\nauth_type = password\npassword = {SECRET}\nmemcache_secret_key = {SECRET}\n"
        "[placement]\nmax_alocation_candidates = 1\n"
    )
    assert run([*as_json, "config", "show", "--changed", "--config-file", str(path)]) == 0
    out = capsys.readouterr().out
    assert SECRET not in out
    assert "mysql+pymysql://u:***@h/d" in out
    assert "charset=utf8&password=***" in out
    assert "max_alocation_candidates" in out
    assert "max_pool_size" not in out
    if as_json:
        assert json.loads(out)["ignored"] == [
            {"group": "placement", "option": "max_alocation_candidates", "from": str(path)}
        ]


def test_what_can_not_be_used_is_told_in_one_line(conf_file, capsys):
    path = conf_file("[placement_database]\nconnection = sqlite:///a.db\n[stead]\nwrite_timout = 3\n")
    assert run(["config", "show", "--config-file", str(path)]) == 2
    said = capsys.readouterr()
    assert said.err == f"stead: [stead] has no option write_timout ({path}): the nearest is write_timeout\n"


@pytest.mark.parametrize(
    ("written", "nearest"),
    [
        ("write_timout", "write_timeout"),
        ("reconcile", "reconcile_interval"),
        ("x", "max_"),
        ("max-body-size", "max_body_size"),
    ],
)
def test_an_unknown_option_of_ours_is_refused_with_the_nearest_one(conf_file, written, nearest):
    text = f"[placement_database]\nconnection = sqlite:///a.db\n[stead]\n{written} = 3\n"
    with pytest.raises(ConfigError, match=f"{written}.*nearest is {nearest}"):
        load([conf_file(text)])


def test_an_unknown_variable_of_ours_is_refused_too(monkeypatch):
    monkeypatch.setenv("OS_STEAD__WRITE_TIMOUT", "3")
    with pytest.raises(ConfigError, match=r"OS_STEAD__WRITE_TIMOUT.*nearest is write_timeout"):
        load()


def test_an_unknown_option_in_a_directory_is_refused(conf_file):
    path = conf_file("[STEAD]\nwrite_timeout = 3\n[placement_database]\nconnection = sqlite:///a.db\n", "d/1.conf")
    assert load(dirs=[path.parent]).database.write_timeout == 3
    conf_file("[STEAD]\nwrite_timout = 3\n", "d/2.conf")
    with pytest.raises(ConfigError, match=r"2\.conf"):
        load(dirs=[path.parent])


def test_the_sample_has_every_option_and_can_be_read(conf_file):
    written = io.StringIO()
    write_sample(written)
    text = written.getvalue()
    path = conf_file(f"{text}\n[placement_database]\nconnection = sqlite:///a.db\n")
    for group, name in shown(load([path])):
        if group in ("stead", "placement", "placement_database", "api", "cors", "workarounds"):
            assert f"\n#{name} =" in text, name
    assert "[keystone_authtoken]" in text
    assert "#use_journal" in text


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("postgresql://u:hunter2@h/d", "postgresql://u:***@h/d"),
        ("postgresql://h/d?user=u&password=hunter2", "postgresql://h/d?password=***&user=u"),
        ("mysql://u:hun:ter2@h/d", "mysql://u:***@h/d"),
        ("hunter2", "***"),
        ("", "***"),
    ],
)
def test_urls_are_masked(url, masked):
    assert masked_url(url) == masked


def test_parameters_are_masked():
    assert masked_parameters("a=1&ssl_key=x&Password=y&b=2") == "a=1&ssl_key=***&Password=***&b=2"
    assert masked_parameters("") == ""


def test_all_is_shown_with_what_stands_against_a_start(conf_file, capsys):
    path = conf_file(
        f"[DEFAULT]\ndebug = true\n[placement_database]\nmax_pool_size = many\nslave_connection = a${SECRET}\n"
        f"[placement]\nmax_allocation_candidates = 7\n[keystone_authtoken]\nauth_type = a${SECRET}\n"
    )
    assert run(["config", "show", "--changed", "--config-file", str(path)]) == 1
    said = capsys.readouterr()
    assert f"max_allocation_candidates = 7 # {path}\n" in said.out
    assert f"max_pool_size = <invalid> # {path}\n" in said.out
    assert "[placement_database] connection is required" in said.err
    assert f"[placement_database] max_pool_size ({path}): invalid literal" in said.err
    assert f"[placement_database] slave_connection ({path}): it refers to an option that does not exist" in said.err
    assert f"[keystone_authtoken] auth_type ({path}): it refers" in said.err
    assert said.err.count("\n") == 1
    assert SECRET not in said.out + said.err
    assert run(["--json", "config", "show", "--config-file", str(path)]) == 1
    assert any("connection is required" in problem for problem in json.loads(capsys.readouterr().out)["problems"])


def test_a_connection_that_is_no_url_is_shown_masked(conf_file, capsys):
    path = conf_file(f"[placement_database]\nconnection = what: {SECRET}\n")
    assert run(["config", "show", "--changed", "--config-file", str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == f"[placement_database]\nconnection = *** # {path}\n"
    assert "is not a database URL" in said.err


def test_a_configuration_without_problems_is_said_to_have_none(conf_file, capsys):
    path = conf_file("[placement_database]\nconnection = sqlite:///a.db\n")
    assert run(["--json", "config", "show", "--config-file", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []


URLS = (
    f"[keystone_authtoken]\nauth_type = password\nauth_url = http://u:{SECRET}@host/v3\n"
    f"www_authenticate_uri = https://u:{SECRET}@{SECRET}@host\nmemcached_servers = a://u:{SECRET}@h:1,b://u:{SECRET}@h\n"
    f"[cors]\nallowed_origin = https://u:{SECRET}@a.example,https://b.example:80\n"
    f"[placement_database]\nconnection = sqlite:///a.db\nconnection_parameters = a=1&password={SECRET}\n"
)


def test_passwords_in_urls_of_any_option_are_masked(conf_file):
    values = shown(load([conf_file(URLS)]))
    assert SECRET not in str(values)
    assert values["keystone_authtoken", "auth_url"][0] == "http://u:***@host/v3"
    assert values["keystone_authtoken", "www_authenticate_uri"][0] == "https://u:***@host"
    assert values["keystone_authtoken", "memcached_servers"][0] == "a://u:***@h:1,b://u:***@h"
    assert values["cors", "allowed_origin"][0] == "https://u:***@a.example,https://b.example:80"


def test_the_log_of_all_options_has_no_passwords(conf_file, caplog):
    conf = load([conf_file(URLS)]).conf
    report(conf)  # makes the options of libraries known
    caplog.set_level(logging.DEBUG)
    conf.log_opt_values(logging.getLogger("options"), logging.DEBUG)
    assert "http://u:***@host/v3" in caplog.text
    assert "a=1&password=***" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("value", "shown_as"),
    [
        ("http://host:80/a@b", "http://host:***@b"),  # rather too little than too much
        ("http://host:80/a", "http://host:80/a"),
        ("http://user@host/", "http://user@host/"),
        ("http://h/?a=1&token=x&b=2", "http://h/?a=1&token=***&b=2"),
        ("redis://:word@h/0", "redis://:***@h/0"),
        ("a:b@c", "a:b@c"),
        (["http://u:p/w@h", 3], ["http://u:***@h", 3]),
        ({"a": "http://u:p@h"}, {"a": "http://u:***@h"}),
    ],
)
def test_urls_in_any_value_are_masked(value, shown_as):
    assert masked("some_option", value) == shown_as


def test_the_sample_has_the_defaults_that_are_in_effect(conf_file):
    written = io.StringIO()
    write_sample(written)
    levels, _ = shown(load([conf_file("[placement_database]\nconnection = sqlite:///a.db\n")]))[
        "DEFAULT", "default_log_levels"
    ]
    assert levels.endswith(",routes=INFO")
    assert f"\n#default_log_levels = {levels}\n" in written.getvalue()


def test_the_case_of_an_unknown_option_of_ours_does_not_mislead(conf_file):
    with pytest.raises(ConfigError, match=r"TOKEN_FILE.*nearest is token_file"):
        load([conf_file("[placement_database]\nconnection = sqlite:///a.db\n[stead]\nTOKEN_FILE = a\n")])
