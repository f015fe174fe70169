"""A client that is generated from the OpenAPI document compiles, and claims a place.

``make clients`` runs it. It needs Go, Java and ``openapi-generator-cli``, which the other tests do without.
"""

import os
import shutil
import subprocess

import pytest

from stead import Node, testing
from tests.checkout import ROOT

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]  # compiles Go's standard library the first time

GENERATE = ["openapi-generator-cli", "generate", "-g", "go", "--package-name", "placement"]


def test_the_client_for_go_claims_a_place_and_the_same_place_again(tmp_path):
    program = tmp_path / "go"
    shutil.copytree(ROOT / "samples/clients/go", program)
    options = ["-i", ROOT / "docs/openapi.json", "-o", "placement", "--global-property", "apis,models,supportingFiles"]
    subprocess.run([*GENERATE, *options], cwd=program, check=True, stdout=subprocess.DEVNULL)
    for name in ("go.mod", "go.sum"):
        (program / "placement" / name).unlink()
    environment = {**os.environ, "GOPROXY": "off"}  # it needs no other module
    subprocess.run(["go", "build", "-o", "claim", "."], cwd=program, env=environment, check=True)
    with testing.placement() as url:
        host = url.site().apply(Node("host", VCPU=4)).uuids["host"]
        environment |= {"STEAD_URL": url, "STEAD_TOKEN": "admin"}

        def claim(name, amount):
            command = [program / "claim", name, f"resources=VCPU:{amount}&order_by=pack"]
            return subprocess.run(command, env=environment, capture_output=True, text=True)

        for _ in range(2):
            assert claim("train-1", 2).stdout == f"{host} map[resources:map[VCPU:2]]\n"
        assert "stead.nothing_fits" in claim("train-2", 3).stderr
        assert [each.amounts for each in url.site().usages("go-jobs").values()] == [{"VCPU": 2}]
