"""The options of an existing placement.conf are accepted with their groups, names, types and defaults."""

import pytest

from stead.config import load

ZERO = "00000000-0000-0000-0000-000000000000"
EXPOSED = "X-Auth-Token,X-Openstack-Request-Id,X-Subject-Token,X-Service-Token,OpenStack-API-Version"
SENT = (
    "X-Auth-Token,X-Openstack-Request-Id,X-Identity-Status,X-Roles,X-Service-Catalog,X-User-Id,X-Tenant-Id,"
    "OpenStack-API-Version"
)

# group, option, default, a value that may be written, what it means
OPTIONS = [
    ("DEFAULT", "tempdir", None, "/tmp/x", "/tmp/x"),
    ("DEFAULT", "state_path", ..., "/srv", "/srv"),
    ("DEFAULT", "pybasedir", ..., "/opt", "/opt"),
    ("DEFAULT", "log_options", True, "no", False),
    ("DEFAULT", "debug", False, "true", True),
    ("DEFAULT", "log_config_append", None, "x.conf", "x.conf"),
    ("DEFAULT", "log_date_format", "%Y-%m-%d %H:%M:%S", "%H", "%H"),
    ("DEFAULT", "log_file", None, "a.log", "a.log"),
    ("DEFAULT", "log_dir", None, "/var/log", "/var/log"),
    *(("DEFAULT", name, False, "true", True) for name in (
        "use_syslog", "use_journal", "use_json", "use_stderr", "log_color", "publish_errors")),
    ("DEFAULT", "syslog_log_facility", "LOG_USER", "LOG_LOCAL0", "LOG_LOCAL0"),
    ("DEFAULT", "log_rotate_interval", 1, "2", 2),
    ("DEFAULT", "log_rotate_interval_type", "days", "hours", "hours"),
    ("DEFAULT", "max_logfile_count", 30, "3", 3),
    ("DEFAULT", "max_logfile_size_mb", 200, "3", 3),
    ("DEFAULT", "log_rotation_type", "none", "size", "size"),
    *(("DEFAULT", name, ..., "%(message)s", "%(message)s") for name in (
        "logging_context_format_string", "logging_default_format_string", "logging_debug_format_suffix",
        "logging_exception_prefix", "logging_user_identity_format", "instance_format", "instance_uuid_format")),
    ("DEFAULT", "default_log_levels", ..., "a=INFO,b=DEBUG", ["a=INFO", "b=DEBUG"]),
    ("DEFAULT", "rate_limit_interval", 0, "3", 3),
    ("DEFAULT", "rate_limit_burst", 0, "3", 3),
    ("DEFAULT", "rate_limit_except_level", "CRITICAL", "ERROR", "ERROR"),
    ("api", "auth_strategy", "keystone", "noauth2", "noauth2"),
    ("placement_database", "connection_parameters", "", "a=1", "a=1"),
    ("placement_database", "sqlite_synchronous", True, "false", False),
    ("placement_database", "slave_connection", None, "sqlite:///b.db", "sqlite:///b.db"),
    ("placement_database", "mysql_sql_mode", "TRADITIONAL", "ANSI", "ANSI"),
    ("placement_database", "connection_recycle_time", 3600, "60", 60),
    *(("placement_database", name, None, "7", 7) for name in ("max_pool_size", "max_overflow", "pool_timeout")),
    ("placement_database", "max_retries", 10, "-1", -1),
    ("placement_database", "retry_interval", 10, "1", 1),
    ("placement_database", "connection_debug", 0, "50", 50),
    ("placement_database", "connection_trace", False, "true", True),
    ("placement_database", "sync_on_startup", False, "true", True),
    ("placement", "randomize_allocation_candidates", False, "true", True),
    ("placement", "incomplete_consumer_project_id", ZERO, "p", "p"),
    ("placement", "incomplete_consumer_user_id", ZERO, "u", "u"),
    ("placement", "allocation_conflict_retry_count", 10, "3", 3),
    ("placement", "max_allocation_candidates", -1, "100", 100),
    ("placement", "allocation_candidates_generation_strategy", "depth-first", "breadth-first", "breadth-first"),
    ("workarounds", "optimize_for_wide_provider_trees", False, "true", True),
    ("cors", "allowed_origin", None, "https://a,https://b", ["https://a", "https://b"]),
    ("cors", "allow_credentials", True, "false", False),
    ("cors", "expose_headers", EXPOSED.split(","), "X-A", ["X-A"]),
    ("cors", "max_age", 3600, "1", 1),
    ("cors", "allow_methods", ["GET", "PUT", "POST", "DELETE", "PATCH"], "GET", ["GET"]),
    ("cors", "allow_headers", SENT.split(","), "X-A", ["X-A"]),
    ("oslo_middleware", "enable_proxy_headers_parsing", False, "true", True),
    ("oslo_policy", "enforce_new_defaults", ..., "false", False),  # the library's default, which changed at 6
    ("oslo_policy", "policy_file", "policy.yaml", "p.yaml", "p.yaml"),
    ("oslo_policy", "policy_default_rule", "default", "d", "d"),
    ("oslo_policy", "policy_dirs", ["policy.d"], "p.d", ["p.d"]),
    ("oslo_policy", "remote_content_type", "application/x-www-form-urlencoded", "application/json", "application/json"),
    ("oslo_policy", "remote_ssl_verify_server_crt", False, "true", True),
    *(("oslo_policy", f"remote_ssl_{name}_file", None, "f", "f") for name in ("ca_crt", "client_crt", "client_key")),
    ("oslo_policy", "remote_timeout", 60, "3", 3),
]  # fmt: skip


def value_of(settings, group, name):
    holder = settings.conf if group == "DEFAULT" else settings.conf[group]
    return getattr(holder, name)


@pytest.fixture
def conf_file(tmp_path):
    def write(text):
        path = tmp_path / "placement.conf"
        path.write_text(f"[placement_database]\nconnection = sqlite:///a.db\n{text}")
        return path

    return write


def test_defaults(conf_file):
    settings = load([conf_file("")])
    for group, name, default, _, _ in OPTIONS:
        if default is not ...:
            assert value_of(settings, group, name) == default, (group, name)


@pytest.mark.parametrize("by", ["file", "environment"])
def test_all_of_them_may_be_written(conf_file, monkeypatch, by):
    text = ""
    # oslo.config takes a variable for an option of several values apart, letter by letter.
    options = [row for row in OPTIONS if by == "file" or row[1] != "policy_dirs"]
    for group, name, _, written, _ in options:
        if by == "file":
            text += f"[{group}]\n{name} = {written}\n"
        else:
            monkeypatch.setenv(f"OS_{group.upper()}__{name.upper()}", written)
    settings = load([conf_file(text)])
    for group, name, _, _, meant in options:
        assert value_of(settings, group, name) == meant, (group, name)


def test_the_routes_of_old_releases_are_quiet_in_the_log_by_default(conf_file):
    assert "routes=INFO" in load([conf_file("")]).conf.default_log_levels


def test_a_value_may_refer_to_the_state_path(conf_file):
    settings = load([conf_file("[DEFAULT]\nstate_path = /srv\nlog_dir = $state_path/log\n")])
    assert settings.conf.log_dir == "/srv/log"
