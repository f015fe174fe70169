"""Who may do what. Source: "Policy", docs/authentication.md."""

import threading

import pytest
from oslo_context.context import RequestContext

from stead.auth import policy as policy_module
from stead.auth.authentication import ANONYMOUS, Credentials
from stead.auth.policy import Policy, list_rules
from stead.config import ConfigError, load
from stead.domain.errors import Forbidden

RULES = [rule.name for rule in list_rules() if rule.name.startswith("placement:")]
RESHAPE, USAGES = "placement:reshaper:reshape", "placement:usages"
OWN, OTHER = {"project_id": "own"}, {"project_id": "other"}


def who(*roles, **scope):
    return Credentials(user_id="u", project_id=None if scope else "own", roles=roles, **scope)


@pytest.fixture
def policy(tmp_path, settings, monkeypatch):
    """A policy of the given mode and files, which looks at the files each time."""
    monkeypatch.setattr(policy_module, "RECHECK", -1.0)

    def make(enforce_new_defaults=True, **files):
        conf = tmp_path / "placement.conf"
        conf.write_text(f"[oslo_policy]\nenforce_new_defaults = {enforce_new_defaults}\n")
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        return Policy(settings(conf).conf)

    return make


def allowed(policy, credentials, target=None):
    """The rules that allow it; *target* is that of the usages route."""

    def allows(rule):
        try:
            policy.require(rule, credentials, target if rule == USAGES else None)
        except Forbidden:
            return False
        return True

    return {rule for rule in RULES if allows(rule)}


EVERYTHING = set(RULES)


def test_there_is_a_rule_for_each_line_of_the_contract():
    assert len(EVERYTHING) == 33
    others = {rule.name for rule in list_rules() if not rule.name.startswith("stead:")} - EVERYTHING
    assert others == {
        "admin_api",
        "service_api",
        "admin_or_service_api",
        "project_reader_api",
        "admin_or_project_reader_or_service_api",
    }


@pytest.mark.parametrize("target", [OWN, OTHER, {}])
@pytest.mark.parametrize(
    ("roles", "new", "legacy"),
    [
        (("admin",), EVERYTHING - {RESHAPE}, EVERYTHING),
        (("admin", "member", "reader"), EVERYTHING - {RESHAPE}, EVERYTHING),
        (("ADMIN",), EVERYTHING - {RESHAPE}, EVERYTHING),
        (("service",), EVERYTHING, EVERYTHING),
        (("admin", "service"), EVERYTHING, EVERYTHING),
        (("member",), set(), set()),
        ((), set(), set()),
    ],
)
def test_roles_decide_alike_for_every_project(policy, roles, new, legacy, target):
    assert allowed(policy(True), who(*roles), target) == new
    assert allowed(policy(False), who(*roles), target) == legacy


@pytest.mark.parametrize("new_defaults", [True, False])
@pytest.mark.parametrize("roles", [("reader",), ("member", "reader")])
def test_a_reader_sees_the_usages_of_the_own_project_and_nothing_else(policy, roles, new_defaults):
    rules = policy(new_defaults)
    assert allowed(rules, who(*roles), OWN) == {USAGES}
    assert allowed(rules, who(*roles), OTHER) == set()
    assert allowed(rules, who(*roles), {}) == set()


@pytest.mark.parametrize("new_defaults", [True, False])
@pytest.mark.parametrize("scope", [{"system_scope": "all"}, {"domain_id": "default"}])
@pytest.mark.parametrize("roles", [("admin",), ("service",), ("reader",), ("admin", "service", "reader")])
def test_system_and_domain_scope_are_refused_everywhere(policy, new_defaults, scope, roles):
    assert allowed(policy(new_defaults), who(*roles, **scope), OWN) == set()


def test_a_request_without_any_scope_counts_as_project_scoped(policy):
    assert allowed(policy(), Credentials(user_id="u", roles=("service",)), OWN) == EVERYTHING


@pytest.mark.parametrize(
    ("variables", "of_an_admin"),
    [({}, EVERYTHING - {RESHAPE}), ({"OS_OSLO_POLICY__ENFORCE_NEW_DEFAULTS": "false"}, EVERYTHING)],
    ids=["none", "legacy"],
)
def test_the_new_defaults_hold_unless_the_environment_says_otherwise(settings, variables, of_an_admin):
    assert allowed(Policy(settings(**variables).conf), who("admin"), OWN) == of_an_admin


def test_nobody_may_do_nothing(policy):
    assert allowed(policy(), ANONYMOUS, OWN) == set()


def test_a_refusal_names_the_rule(policy):
    with pytest.raises(Forbidden) as refused:
        policy().require(RESHAPE, who("admin"))
    assert str(refused.value) == f"Policy does not allow {RESHAPE} to be performed."
    with pytest.raises(Forbidden) as refused:
        policy().require(RESHAPE, who("admin", system_scope="all"))
    assert str(refused.value) == RESHAPE


def test_the_policy_file_overrides_and_then_no_old_default_is_added(policy):
    rules = policy(False, policy_yaml='"placement:traits:list": "role:auditor"\n"service_api": "role:robot"\n')
    assert allowed(rules, who("auditor"), OWN) == {"placement:traits:list"}
    assert allowed(rules, who("robot"), OWN) == {RESHAPE}
    assert allowed(rules, who("admin"), OWN) == EVERYTHING - {"placement:traits:list", RESHAPE}


def test_a_wide_open_policy_lets_a_user_without_roles_do_everything(policy):
    names = [rule.name for rule in list_rules() if rule.name != "admin_api"]
    rules = policy(policy_yaml="".join(f'"{name}": "@"\n' for name in names))
    assert allowed(rules, who(), {}) == EVERYTHING


def test_the_policy_file_is_read_again_when_it_appears_changes_and_goes(policy, tmp_path):
    rules = policy()
    file = tmp_path / "policy.yaml"
    assert allowed(rules, who("auditor"), OWN) == set()
    file.write_text('"placement:traits:list": "role:auditor"\n')
    assert allowed(rules, who("auditor"), OWN) == {"placement:traits:list"}
    file.write_text('"placement:traits:show": "role:auditor"\n')
    assert allowed(rules, who("auditor"), OWN) == {"placement:traits:show"}
    file.unlink()
    assert allowed(rules, who("auditor"), OWN) == set()
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d" / "more.yaml").write_text('"placement:traits:list": "role:auditor"\n')
    assert allowed(rules, who("auditor"), OWN) == {"placement:traits:list"}


def test_a_malformed_file_stops_the_start_and_at_run_time_changes_nothing(policy, tmp_path, caplog):
    rules = policy(policy_yaml='"placement:traits:list": "role:auditor"\n')
    (tmp_path / "policy.yaml").write_text("{ this is : no [ yaml")
    for _ in range(3):
        assert allowed(rules, who("auditor"), OWN) == {"placement:traits:list"}
    assert len([record for record in caplog.records if record.name.startswith("stead.auth")]) == 1
    with pytest.raises(ConfigError, match=f"policy: {tmp_path}/policy.yaml: "):
        policy(policy_yaml="{ this is : no [ yaml")


@pytest.mark.parametrize("check", ["auditor", "role:auditor or or", "role:auditor or auditor"])
def test_a_check_that_can_not_be_read_is_a_malformed_file(policy, tmp_path, caplog, check):
    rules = policy(policy_yaml='"placement:traits:list": "role:auditor"\n')
    (tmp_path / "policy.yaml").write_text(f'"placement:traits:list": "{check}"\n')
    assert allowed(rules, who("auditor"), OWN) == {"placement:traits:list"}
    (complaint,) = caplog.messages
    assert "the previous rules stay in force" in complaint
    with pytest.raises(ConfigError, match=f"policy: {tmp_path}/policy.yaml: Failed to understand rule"):
        policy(policy_yaml=f'"placement:traits:list": "{check}"\n')


CIRCLES = {
    "itself": ('"a": "rule:a"', "a -> a"),
    "another": ('"a": "rule:b"\n"b": "rule:a"', "a -> b -> a"),
    "three": ('"c": "rule:a"\n"a": "rule:b"\n"b": "rule:c"', "c -> a -> b -> c"),
    "or": ('"a": "role:x or rule:a"', "a -> a"),
    "and, not": ('"a": "role:x and not rule:b"\n"b": "(role:y or rule:a)"', "a -> b -> a"),
    "a default": (
        '"admin_api": "rule:placement:traits:list"\n"placement:traits:list": "rule:admin_api"',
        "traits:list",
    ),
}


@pytest.mark.parametrize("name", CIRCLES)
def test_a_circle_of_rules_stops_the_start_and_at_run_time_changes_nothing(policy, tmp_path, caplog, name):
    text, named = CIRCLES[name]
    rules = policy(policy_yaml='"placement:traits:list": "role:auditor"\n')
    (tmp_path / "policy.yaml").write_text(text)
    assert allowed(rules, who("auditor"), OWN) == {"placement:traits:list"}
    # oslo.policy logs a line of its own about some circles.
    (complaint,) = [record.getMessage() for record in caplog.records if record.name.startswith("stead.auth")]
    assert "the previous rules stay in force" in complaint
    with pytest.raises(ConfigError) as refused:
        policy(policy_yaml=text)
    for message in (complaint, str(refused.value)):
        assert f"{tmp_path}/policy.yaml: rules refer to each other in a circle: " in message
        assert named in message


def test_rules_that_share_a_rule_are_no_circle(policy):
    text = '"a": "rule:b and rule:c"\n"b": "rule:c"\n"c": "role:auditor"\n"placement:traits:list": "rule:a or rule:b"'
    assert allowed(policy(policy_yaml=text), who("auditor"), OWN) == {"placement:traits:list"}


def test_of_several_files_the_malformed_one_is_named(policy, tmp_path):
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d" / "good.yaml").write_text('"a": "role:x"')
    (tmp_path / "policy.d" / "odd.yaml").write_text('"b": "role:x or or"')
    with pytest.raises(ConfigError, match=r"policy\.d/odd\.yaml: Failed to understand rule"):
        policy(policy_yaml='"c": "role:y"')
    (tmp_path / "policy.d" / "odd.yaml").write_text('"a": "rule:c"')
    with pytest.raises(ConfigError, match=r"policy\.(yaml|d/odd\.yaml): rules refer .* circle"):
        policy(policy_yaml='"c": "rule:a"')


def test_a_rule_for_nobody_is_no_mistake(policy):
    assert "placement:traits:list" not in allowed(
        policy(policy_yaml='"placement:traits:list": "!"\n'), who("admin"), OWN
    )


def test_what_was_allowed_is_asked_again_after_a_moment(policy, tmp_path, monkeypatch):
    monkeypatch.setattr(policy_module, "RECHECK", 3600.0)
    rules = policy(policy_yaml='"placement:traits:list": "role:auditor"\n')
    rules.require("placement:traits:list", who("auditor"))
    (tmp_path / "policy.yaml").write_text('"placement:traits:list": "!"\n')
    rules.require("placement:traits:list", who("auditor"))  # within the moment
    rules._fresh_until = 0.0
    with pytest.raises(Forbidden):
        rules.require("placement:traits:list", who("auditor"))


def test_what_one_caller_is_allowed_is_decided_anew_for_every_other(policy):
    rules = policy()
    caller = {"user_id": "u", "project_id": "own", "roles": ("service",)}
    rules.require(USAGES, Credentials(**caller), {})
    assert hash(Credentials(**caller)) == hash(Credentials(**caller))
    others = [caller | {"system_scope": "all"}, caller | {"domain_id": "d"}, caller | {"roles": ()}]
    for other in others:
        with pytest.raises(Forbidden):
            rules.require(USAGES, Credentials(**other), {})
    unlike = [{"user_domain_id": "d"}, {"is_admin_project": False}, {"service_roles": ("admin",)}]
    assert len({Credentials(**caller | more) for more in unlike} | {Credentials(**caller)}) == 4


def test_threads_never_see_a_policy_without_rules(policy, tmp_path):
    rules = policy()
    refused = []

    def ask():
        for _ in range(150):
            try:
                rules.require("placement:traits:list", who("service"))
            except Forbidden as error:
                refused.append(error)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    for number in range(20):
        (tmp_path / "policy.yaml").write_text(f'"placement:traits:show": "role:r{number}"\n')
    for asker in askers:
        asker.join()
    assert refused == []


def test_policy_files_are_beside_the_configuration_in_a_directory_too(tmp_path, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite://")
    (tmp_path / "any.conf").write_text("[oslo_policy]\npolicy_file = mine.yaml\n")
    (tmp_path / "mine.yaml").write_text('"placement:traits:list": "role:auditor"\n')
    assert allowed(Policy(load(dirs=[tmp_path]).conf), who("auditor"), OWN) == {"placement:traits:list"}


def test_policy_files_may_speak_of_all_that_other_services_let_them_speak_of():
    everything = RequestContext().to_policy_values()
    assert set(policy_module._values(ANONYMOUS)) == {*everything}
