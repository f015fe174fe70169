"""A line of the log has no value in it that is secret in the configuration, whoever wrote it and however."""

import json
import logging
from urllib.parse import quote, quote_plus

import pytest
from oslo_config import cfg

from stead.config import read_conf
from stead.config.masking import mask_of
from stead.observe.log import JsonLines, Masking

PASSWORD = "p/w \"d+1'é%"
TEXT = f"""
[placement_database]
connection = mysql+pymysql://stead:{quote(PASSWORD, safe="")}@db.example/placement?ssl_key=/etc/key-of-database
connection_parameters = password=second-password&charset=utf8mb4
slave_connection = postgresql://placement:placement@replica.example/placement
[cors]
allowed_origin = https://a.example,https://user:third-password@b.example
[library]
token = fourth-secret,fifth-secret
short = tiny
same = a-name-too
user = a-name-too
"""


@pytest.fixture
def conf(tmp_path):
    file = tmp_path / "placement.conf"
    file.write_text(TEXT)
    return read_conf([file])


@pytest.fixture
def mask(conf):
    """What is known once a library has made its options known, as Keystone's does when the log is set up already."""
    masking = mask_of(conf)
    assert masking("fourth-secret") == "fourth-secret"
    options = [cfg.ListOpt("token", secret=True), *(cfg.StrOpt(name, secret=True) for name in ("short", "same"))]
    conf.register_opts([*options, cfg.StrOpt("user")], group="library")
    return masking


@pytest.mark.parametrize(
    "form", [str, quote, quote_plus, lambda text: quote(text, safe=""), json.dumps, repr, lambda text: f"a{text}b"]
)
@pytest.mark.parametrize("secret", [PASSWORD, "second-password", "third-password", "fourth-secret", "fifth-secret"])
def test_a_secret_is_masked_in_each_form(mask, secret, form):
    masked = mask(f"before {form(secret)} after")
    assert form(secret).strip("'\"") not in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert "***" in masked


@pytest.mark.parametrize(
    "line",
    [
        'placement.requestlog 127.0.0.1 "GET /placement/traits" status: 200',
        "a-name-too asked, tiny",
        "http://127.0.0.1:8778/a?b=c:d@e",
        "https://a.example/x and mail to me@b.example",
        '{"url":"http://a.example:80/x","mail":"me@b.example"}',
    ],
)
def test_what_is_no_secret_stays(mask, line):
    assert mask(line) == line


@pytest.mark.parametrize("end", [" ", '"', "'", ">", "/v3", "?x"])
def test_the_password_of_any_url_is_masked(mask, end):
    assert mask(f"at http://me:other-word@host{end}") == f"at http://me:***@host{end}"


@pytest.mark.parametrize("inner", [logging.Formatter(), JsonLines()])
def test_a_traceback_and_arguments_are_masked_too(mask, inner):
    try:
        raise ValueError(f"no access with {PASSWORD}")
    except ValueError as error:
        record = logging.LogRecord(
            "a", 10, "", 1, "%s", ("second-password",), (type(error), error, error.__traceback__)
        )
    line = Masking(inner, mask).format(record)
    assert "ValueError: no access with ***" in line
    assert "second" not in line
