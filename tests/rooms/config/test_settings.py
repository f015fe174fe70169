"""What ends up in the settings, from files and from the environment."""

import pytest

from stead.config import ConfigError, list_opts, load
from stead.config.settings import LimitSettings
from stead.domain.limits import RequestLimits

CONNECTION = "OS_PLACEMENT_DATABASE__CONNECTION"


@pytest.fixture
def conf_file(tmp_path):
    """Write a configuration file and return its path."""

    def write(text, name="placement.conf"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_defaults_are_those_of_the_contract(monkeypatch):
    monkeypatch.setenv(CONNECTION, "sqlite:////tmp/db")
    settings = load()
    assert not settings.embedded
    assert settings.auth_strategy == "keystone"
    assert settings.database.url == "sqlite:////tmp/db"
    assert (settings.database.sync_on_startup, settings.database.connection_recycle_time) == (False, 3600)
    assert (settings.database.max_retries, settings.database.retry_interval) == (10, 10)
    assert settings.database.max_pool_size is settings.database.max_overflow is settings.database.pool_timeout is None
    assert (settings.candidates.randomize, settings.candidates.maximum) == (False, None)
    assert settings.candidates.breadth_first is False
    assert settings.allocations.incomplete_project_id == "00000000-0000-0000-0000-000000000000"
    assert settings.cors.allowed_origins == ()
    assert settings.cors.allow_methods == ("GET", "PUT", "POST", "DELETE", "PATCH")
    assert (settings.cors.max_age, settings.cors.allow_credentials) == (3600, True)
    assert settings.limits == LimitSettings(5_000_000, 0, 256, 4)
    assert settings.request_limits == RequestLimits(16 * 1024 * 1024, 64_000, 3000, 64, 250_000, 1000, 10_000, 1 << 30)
    assert settings.database.require_durable_commits is False
    assert (settings.database.write_timeout, settings.database.claim_timeout) == (10.0, 10.0)
    assert settings.database.reconcile_interval == 0.0
    assert settings.database.kept_changes == 1_000_000
    assert settings.proxy_headers is False
    assert settings.compress_responses is False
    assert settings.conf.debug is False
    assert settings.conf.oslo_policy.policy_file == "policy.yaml"
    assert settings.conf.log_date_format == "%Y-%m-%d %H:%M:%S"


def test_a_file_says_all_that_it_says(conf_file):
    path = conf_file(
        """
        [DEFAULT]
        debug = true
        [api]
        auth_strategy = noauth2
        [placement_database]
        connection = sqlite:////srv/p.db
        max_pool_size = 7
        sync_on_startup = yes
        [placement]
        randomize_allocation_candidates = true
        max_allocation_candidates = 500
        allocation_candidates_generation_strategy = breadth-first
        incomplete_consumer_user_id = nobody
        [cors]
        allowed_origin = https://a.example,https://b.example
        allow_credentials = false
        [oslo_middleware]
        enable_proxy_headers_parsing = true
        [stead]
        write_timeout = 2.5
        answer_timeout = 3.5
        claim_timeout = 1.5
        compress_responses = true
        require_durable_commits = true
        reconcile_interval = 30
        max_body_size = 1
        max_query_length = 2
        max_request_groups = 3
        max_suffix_length = 4
        max_allocations = 5
        max_candidate_work = 6
        max_concurrent_requests = 7
        max_claims = 8
        max_tree_providers = 11
        max_answer_size = 12
        max_lease = 3600
        expiry_interval = 2.5
        max_watchers = 9
        max_watcher_threads = 3
        kept_changes = 10
        """.replace("\n        ", "\n")
    )
    settings = load([path])
    assert settings.conf.debug is True
    assert settings.auth_strategy == "noauth2"
    assert (settings.database.url, settings.database.max_pool_size) == ("sqlite:////srv/p.db", 7)
    assert (settings.database.sync_on_startup, settings.database.write_timeout) == (True, 2.5)
    assert settings.database.answer_timeout == 3.5
    assert settings.database.claim_timeout == 1.5
    assert settings.candidates.randomize is settings.candidates.breadth_first is True
    assert settings.candidates.maximum == 500
    assert settings.allocations.incomplete_user_id == "nobody"
    assert settings.cors.allowed_origins == ("https://a.example", "https://b.example")
    assert settings.cors.allow_credentials is False
    assert settings.limits == LimitSettings(6, 7, 9, 3)
    assert settings.request_limits == RequestLimits(1, 2, 3, 4, 5, 8, 11, 12, 3600)
    assert settings.database.expiry_interval == 2.5
    assert settings.database.require_durable_commits is True
    assert settings.database.reconcile_interval == 30.0
    assert settings.database.kept_changes == 10
    assert settings.proxy_headers is True
    assert settings.compress_responses is True
    assert settings.config_files == (path,)


def test_the_environment_comes_before_the_file_which_comes_before_the_default(conf_file, monkeypatch):
    path = conf_file(
        "[placement_database]\nconnection = sqlite:///f.db\nmax_pool_size=3\n[placement]\nmax_allocation_candidates=9\n"
    )
    monkeypatch.setenv(CONNECTION, "sqlite:///environment.db")
    monkeypatch.setenv("OS_PLACEMENT__MAX_ALLOCATION_CANDIDATES", "11")
    monkeypatch.setenv("OS_CORS__ALLOWED_ORIGIN", "https://a.example, https://b.example")
    monkeypatch.setenv("OS_DEFAULT__DEBUG", "true")
    settings = load([path])
    assert settings.database.url == "sqlite:///environment.db"
    assert settings.database.max_pool_size == 3
    assert settings.candidates.maximum == 11
    assert settings.cors.allowed_origins == ("https://a.example", "https://b.example")
    assert settings.conf.debug is True


def test_later_files_come_before_earlier_ones_and_directories_before_files(conf_file):
    first = conf_file("[placement_database]\nconnection=sqlite:///1.db\nmax_pool_size=1\nmax_overflow=1\n", "1.conf")
    second = conf_file("[placement_database]\nconnection = sqlite:///2.db\nmax_overflow = 2\n", "2.conf")
    extra = conf_file("[placement_database]\nconnection = sqlite:///3.db\n", "extra.d/10.conf").parent
    database = load([first, second], [extra]).database
    assert (database.url, database.max_overflow, database.max_pool_size) == ("sqlite:///3.db", 2, 1)


def test_unknown_options_and_groups_are_ignored(conf_file):
    path = conf_file("[placement_database]\nconnection = sqlite:///a.db\nspeed = 9\n[made_up]\nx = 1\n")
    assert load([path]).database.url == "sqlite:///a.db"


def test_auth_strategy_is_also_read_from_its_old_place(conf_file):
    path = conf_file("[DEFAULT]\nauth_strategy = noauth2\n[placement_database]\nconnection = sqlite:///a.db\n")
    assert load([path]).auth_strategy == "noauth2"


def test_settings_do_not_show_the_password(conf_file):
    path = conf_file("[placement_database]\nconnection = mysql+pymysql://user:hunter2@db/placement\n")
    settings = load([path])
    assert "hunter2" in settings.database.url
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("max_pool_size = many", "max_pool_size"),
        ("sync_on_startup = perhaps", "sync_on_startup"),
        ("connection_debug = many", "connection_debug"),
        ("[DEFAULT]\nlog_options = perhaps", "log_options"),
        ("connection = no url: hunter2", "not a database URL"),
        ("connection = mysql://u:hunter2$x@h/d", r"\$\$"),
    ],
)
def test_a_value_that_does_not_fit_is_one_line_without_secrets(conf_file, line, hint):
    path = conf_file(f"[placement_database]\nconnection = sqlite:///a.db\n{line}\n")
    with pytest.raises(ConfigError, match=hint) as caught:
        load([path])
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[placement_database]\nmax_pool_size = many\n", "[placement_database] max_pool_size ({}): invalid literal"),
        ("[api]\nauth_strategy = trust\n", "[api] auth_strategy ({}): Valid values are"),
        (
            "[placement_database]\nconnection = mysql://u:a$hunter2@h/d\n",
            "[placement_database] connection ({}): it refers",
        ),
        ("[DEFAULT]\nauth_strategy = trust\n", "[api] auth_strategy ({}): Valid"),
    ],
)
def test_what_does_not_fit_is_named_with_its_group_and_its_file(conf_file, text, said):
    path = conf_file(text)
    with pytest.raises(ConfigError) as caught:
        load([conf_file("[placement_database]\nconnection = sqlite:///a.db\n", "first.conf"), path])
    assert str(caught.value).startswith(said.format(path))
    assert "LocationInfo" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_variable_that_does_not_fit_is_named(conf_file, monkeypatch):
    path = conf_file("[placement_database]\nconnection = sqlite:///a.db\nmax_pool_size = 3\n[DEFAULT]\ndebug = no\n")
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__MAX_POOL_SIZE", "many")
    with pytest.raises(
        ConfigError, match=r"^\[placement_database\] max_pool_size \(OS_PLACEMENT_DATABASE__MAX_POOL_SIZE"
    ):
        load([path])
    monkeypatch.delenv("OS_PLACEMENT_DATABASE__MAX_POOL_SIZE")
    monkeypatch.setenv("OS_DEFAULT__DEBUG", "perhaps")
    with pytest.raises(ConfigError, match=r"^\[DEFAULT\] debug \(OS_DEFAULT__DEBUG\): "):
        load([path])


def test_a_reference_in_an_option_of_the_log_is_no_leak(conf_file):
    path = conf_file("[DEFAULT]\nlog_file = a$hunter2\n[placement_database]\nconnection = sqlite:///a.db\n")
    with pytest.raises(ConfigError, match=r"\$\$") as caught:
        load([path])
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("how", ["a directory", "not text", "no group", "missing"])
def test_a_file_that_can_not_be_read_is_named(tmp_path, how):
    path = tmp_path / "odd.conf"
    if how == "a directory":
        path.mkdir()
    elif how != "missing":
        path.write_bytes(b"[api]\nx = \xff\n" if how == "not text" else b"x = 1\n")
    with pytest.raises(ConfigError) as caught:
        load([path])
    assert str(caught.value).startswith(f"configuration file {path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [-1, 0, 200])
def test_sql_may_be_logged_as_much_as_anybody_wants(conf_file, number):
    path = conf_file(f"[placement_database]\nconnection = sqlite:///a.db\nconnection_debug = {number}\n")
    assert load([path]).conf.placement_database.connection_debug == number


def test_an_unknown_auth_strategy_is_refused(conf_file):
    path = conf_file("[placement_database]\nconnection = sqlite:///a.db\n[api]\nauth_strategy = trust\n")
    with pytest.raises(ConfigError, match="auth_strategy"):
        load([path])


@pytest.mark.parametrize(("word", "order"), [("off", None), ("pack", "pack"), ("headroom", "headroom")])
def test_the_default_order_is_one_of_order_by(conf_file, word, order):
    path = conf_file(f"[placement_database]\nconnection = sqlite:///a.db\n[stead]\ndefault_order = {word}\n")
    assert load([path]).candidates.order == order


@pytest.mark.parametrize("word", ["", "best", "PACK", "random", "VCPU:asc"])
def test_an_unknown_default_order_is_refused(conf_file, word):
    path = conf_file(f"[placement_database]\nconnection = sqlite:///a.db\n[stead]\ndefault_order = {word}\n")
    with pytest.raises(ConfigError, match="default_order"):
        load([path])


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"missing\.conf"):
        load([tmp_path / "missing.conf"])


def test_a_missing_directory_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        load(dirs=[tmp_path / "missing.d"])


def test_the_token_strategy_needs_a_token_file(conf_file, tmp_path):
    text = "[placement_database]\nconnection = sqlite:///a.db\n[api]\nauth_strategy = token\n[stead]\n"
    with pytest.raises(ConfigError, match="token_file is required"):
        load([conf_file(text)])
    assert load([conf_file(text + f"token_file = {tmp_path}/t.json\n")]).token_file == tmp_path / "t.json"


def test_every_help_text_has_the_default():
    without = {
        f"[{group}] {option.name}"
        for group, options in list_opts()
        for option in options
        if option.default is not None and "$" not in option.help and "compatibility" not in option.help
        if "Default" not in option.help and "default" not in option.help
    }
    assert without == set()


def test_every_option_has_a_help_text():
    silent = [option.name for _, group in list_opts() for option in group if not option.help]
    assert silent == []


class TestWatching:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [("9778", ("127.0.0.1", 9778)), ("0.0.0.0:9778", ("0.0.0.0", 9778)), ("[::1]:9778", ("::1", 9778))],
    )
    def test_metrics_are_at_an_address_and_a_port(self, monkeypatch, text, expected):
        monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite://")
        monkeypatch.setenv("OS_STEAD__METRICS", text)
        assert load().watch.metrics == expected

    @pytest.mark.parametrize("text", ["nonsense", "127.0.0.1:", "127.0.0.1:99999", "0", "1.2.3.4"])
    def test_metrics_at_no_port_are_refused(self, monkeypatch, text):
        monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite://")
        monkeypatch.setenv("OS_STEAD__METRICS", text)
        with pytest.raises(ConfigError, match=r"\[stead\] metrics is"):
            load()

    @pytest.mark.parametrize(
        ("text", "expected"), [("/placement/", "/placement"), ("/a/b", "/a/b"), ("/", ""), ("", "")]
    )
    def test_a_prefix_has_no_slash_at_its_end(self, monkeypatch, text, expected):
        monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite://")
        monkeypatch.setenv("OS_STEAD__PATH_PREFIX", text)
        assert load().path_prefix == expected

    @pytest.mark.parametrize("text", ["placement", "//placement", "/a b", "/a//b", "/ä"])
    def test_a_prefix_that_is_no_path_is_refused(self, monkeypatch, text):
        monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite://")
        monkeypatch.setenv("OS_STEAD__PATH_PREFIX", text)
        with pytest.raises(ConfigError, match="path_prefix"):
            load()
