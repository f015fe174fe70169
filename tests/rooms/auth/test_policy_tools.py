"""oslo.policy's own programs know our rules and the operator's files, as they know those of the released service."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stead.auth.policy import list_rules
from tests.system.differential.released import RELEASED

pytestmark = pytest.mark.timeout(900)  # the released service may have to be installed first

BESIDE_PYTHON = Path(sys.executable).parent
OURS = ("--namespace", "placement")


def run(program, *arguments, cwd, beside=BESIDE_PYTHON, **variables):
    """Exit code and stdout of one of the programs; it may warn on stderr, for oslo.policy has opinions."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    ended = subprocess.run(
        [beside / f"oslopolicy-{program}", *arguments],
        cwd=cwd,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ended.returncode, ended.stdout


@pytest.fixture
def etc(tmp_path):
    """A directory of an operator, who changed one rule, wrote one that is the default, and one that nobody knows."""
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "placement.conf").write_text("[oslo_policy]\npolicy_file = mine.yaml\n")
    (etc / "mine.yaml").write_text(
        '"placement:traits:list": "role:auditor"\n'
        '"placement:traits:show": "rule:admin_or_service_api"\n'
        '"placement:traits:shw": "role:auditor"\n'
    )
    return etc


def test_the_sample_has_every_rule_with_its_routes(tmp_path):
    code, sample = run("sample-generator", *OURS, cwd=tmp_path)
    assert code == 0
    for rule in list_rules():
        assert f'#"{rule.name}": "{rule.check_str}"' in sample
    assert "# GET  /allocation_candidates\n# Intended scope(s): project\n" in sample


@pytest.mark.costly
@pytest.mark.parametrize("given", ["file", "directory", "variable"])
def test_the_tools_find_the_policy_of_the_configuration_they_are_given(tmp_path, etc, given):
    arguments = {"file": ["--config-file", etc / "placement.conf"], "directory": ["--config-dir", etc], "variable": []}
    variables = {"OS_PLACEMENT_CONFIG_DIR": str(etc)} if given == "variable" else {}

    def tool(program):
        return run(program, *OURS, *arguments[given], cwd=tmp_path, **variables)

    code, written = tool("policy-generator")
    effective = yaml.safe_load(written)
    assert (code, effective["placement:traits:list"]) == (0, "role:auditor")
    assert {rule.name for rule in list_rules()} < effective.keys()
    assert tool("list-redundant") == (0, '"placement:traits:show": "rule:admin_or_service_api"\n')
    assert tool("validator") == (1, "Unknown rule found in policy file: placement:traits:shw\n")


def test_the_validator_is_content_with_a_good_file(tmp_path, etc):
    (etc / "mine.yaml").write_text('"placement:traits:list": "role:auditor"\n')
    assert run("validator", *OURS, "--config-dir", etc, cwd=tmp_path) == (0, "")


def test_the_checker_says_what_a_token_may(tmp_path, etc):
    domain = {"id": "default", "name": "Default"}
    token = {"user": {"id": "u", "domain": domain}, "project": {"id": "p", "domain": domain}}
    token |= {"roles": [{"name": "auditor"}], "is_domain": False, "methods": ["password"]}
    (tmp_path / "token.json").write_text(json.dumps({"token": token}))
    code, said = run("checker", "--access", "token.json", "--policy", etc / "mine.yaml", cwd=tmp_path)
    assert code == 0
    assert "passed: placement:traits:list\n" in said
    assert "failed: placement:traits:show\n" in said


@pytest.fixture(scope="session")
def released():
    """Before a variable that names its place is hidden from the tests here."""
    return RELEASED.required_for("the policy of the released service") / "bin"


def test_the_policy_is_that_of_the_released_service(tmp_path, released):
    theirs = run("policy-generator", *OURS, cwd=tmp_path, beside=released)
    ours = run("policy-generator", *OURS, cwd=tmp_path)
    assert theirs[0] == ours[0] == 0
    shared = {name: rule for name, rule in yaml.safe_load(ours[1]).items() if not name.startswith("stead:")}
    assert shared == yaml.safe_load(theirs[1])
