import os
import re
import shlex
import signal
import subprocess
import sys
import threading

import pytest

from scripts.commands import leaves
from stead.cli.app import SUBCOMMANDS, run
from stead.cli.documented import DOCUMENTED
from tests.waiting import PATIENCE_SECONDS

STEAD = [sys.executable, "-c", "from stead.cli import main; main()"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bogus"],
        ["bogus"],
        ["tree", "--bogus"],
        ["tree", "--depth", "-1"],
        ["tree", "a", "b"],
        ["release"],
        ["claim", "q"],
    ],
)
def test_wrong_usage_is_two_and_one_line_that_names_the_help(arguments, capsys):
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("stead: ")
    assert err.endswith(" --help`)\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["--help"], ["tree", "--help"]])
def test_help_is_given_without_a_server(arguments, capsys):
    assert run(arguments) == 0
    assert "Usage: stead" in capsys.readouterr().out


def test_the_version_is_shown(capsys):
    from stead import __version__

    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"stead {__version__}\n"


@pytest.mark.parametrize(
    ("status", "code"), [(400, 2), (401, 2), (403, 2), (404, 1), (406, 2), (409, 1), (500, 2), (503, 2)]
)
def test_the_status_of_a_refusal_decides_the_exit_code(server, stead, status, code):
    server.refuse("GET /resource_providers", status, "the reason\nin words")
    ran = stead("tree")
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("stead: ")
    assert ran.err.count("\n") == 1


def test_no_server_is_two(stead):
    ran = stead("tree", url="http://127.0.0.1:1")
    assert ran.code == 2
    assert ran.err.startswith("stead: cannot reach http://127.0.0.1:1: connection refused")


def test_a_reason_cannot_steer_the_terminal(server, stead):
    server.refuse("GET /resource_providers", 409, "bad\x1b[2Jname")
    assert stead("tree").err == "stead: bad\\x1b[2Jname (409)\n"


@pytest.mark.parametrize("where", ["before", "after", "environment", "both", "after, against the environment"])
def test_shared_options_stand_before_or_after_the_command_or_in_the_environment(server, monkeypatch, capsys, where):
    server.can("GET /resource_providers", {"resource_providers": []})
    given, wrong = ["--url", server.url, "--token", "t"], ["--url", "http://127.0.0.1:1", "--token", "w"]
    if "environment" in where:
        is_wrong = where != "environment"
        monkeypatch.setenv("STEAD_URL", wrong[1] if is_wrong else given[1])
        monkeypatch.setenv("STEAD_TOKEN", wrong[3] if is_wrong else given[3])
    before = given if where == "before" else wrong if where == "both" else []
    after = given if "after" in where or where == "both" else []
    assert run([*before, "tree", *after]) == 0
    assert capsys.readouterr().out == "no resource providers\n"
    assert server.asked[0].headers["x-auth-token"] == "t"


def test_an_option_before_the_command_outvotes_the_environment(server, monkeypatch):
    server.can("GET /resource_providers", {"resource_providers": []})
    monkeypatch.setenv("STEAD_URL", "http://127.0.0.1:1")
    assert run(["--url", server.url, "tree"]) == 0


@pytest.mark.parametrize("arguments", [["--json", "tree"], ["tree", "--json"]])
def test_json_may_be_asked_for_before_or_after_the_command(server, stead, arguments):
    server.can("GET /resource_providers", {"resource_providers": []})
    assert stead(*arguments).json == {"roots": []}


def test_one_call_leaves_nothing_to_the_next(server, stead):
    server.can("GET /resource_providers", {"resource_providers": []})
    assert stead("tree", "--json").out != stead("tree").out


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_can_answer_in_json_and_is_described(name, capsys):
    assert run([name, "--help"]) == 0
    out = capsys.readouterr().out
    if "Commands" not in out:
        assert "--json" in out


LEAVES = dict(leaves())


@pytest.mark.parametrize("words", LEAVES)
def test_the_help_of_every_command_has_an_example_and_calls_values_by_nouns(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run([*words.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Example: stead {words}" in " ".join(out.split())
    assert re.findall("<[a-zA-Z ]+>|\\b(TEXT|INTEGER|FLOAT|STR|INT|BOOL|PATH)\\b", out) == []
    (usage,) = [line for line in out.splitlines() if "Usage: " in line]
    arguments = re.findall(r"[\[{]([^\]}]+)[\]}]", usage)
    assert all(argument.isupper() or "." in argument for argument in arguments), usage


@pytest.mark.parametrize("words", LEAVES)
def test_help_shows_each_text_whole(words, capsys, monkeypatch):
    """Rich takes brackets in a text for markup."""
    monkeypatch.setenv("COLUMNS", "500")
    assert run([*words.split(), "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for parameter in LEAVES[words].params:
        assert " ".join((parameter.help or "").split()) in shown
        assert parameter.metavar not in ("TOP", "TIMES", "TO", "METRICS", "CA")  # no nouns for their values


@pytest.mark.parametrize(
    ("redirected", "code", "complaint"),
    [
        (">/dev/full", 2, b"stead: the output cannot be written: No space left on device\n"),
        (">&-", 0, b""),
        (">&- 2>&-", 0, b""),
        ("2>&-", 0, b""),
    ],
)
def test_an_output_without_room_is_one_line_and_a_closed_one_is_none(tmp_path, redirected, code, complaint):
    command = f"{shlex.join([*STEAD, 'config', 'show'])} {redirected}"
    environ = {**os.environ, "STEAD_DATA_DIR": str(tmp_path)}
    ran = subprocess.run(["sh", "-c", command], env=environ, capture_output=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (code, complaint)


@pytest.mark.parametrize(
    "arguments", [["tree", "\udcff"], ["candidates", "\udcff=1"], ["usage", "--project", "\udcff"]]
)
def test_an_argument_that_is_not_text_is_wrong_usage(server, stead, arguments):
    ran = stead(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("stead: an argument is not UTF-8 text: ")


def test_nothing_is_documented_that_is_no_command():
    assert set(DOCUMENTED) == set(LEAVES)


@pytest.mark.parametrize("words", LEAVES)
def test_the_example_of_each_command_is_a_valid_command_line(words):
    command, _, _ = DOCUMENTED[words].example.partition(" > ")
    name, *arguments = shlex.split(command)
    assert name == "stead"
    LEAVES[words].make_context(words, arguments[len(words.split()) :])  # else UsageError


def test_a_command_that_does_not_exist_is_answered_with_the_one_that_is_like_it(capsys):
    assert run(["tre"]) == 2
    assert capsys.readouterr().err == "stead: No such command 'tre'. Did you mean tree? (see `stead --help`)\n"


def test_help_does_not_wait_for_what_only_commands_need():
    heavy = {"httpx2", "sqlalchemy", "numpy", "falcon", "oslo_config", "yaml", "platformdirs"}
    script = f"import sys; from stead.cli.app import run; run(['--help']); print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_interrupt_ends_it_quietly(server):
    asked, let_go = threading.Event(), threading.Event()
    answer = server.answer

    def slow(request):
        asked.set()
        let_go.wait(PATIENCE_SECONDS)
        return answer(request)

    server.answer = slow
    with subprocess.Popen(
        [*STEAD, "--url", server.url, "tree"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background have it ignored
    ) as command:
        assert asked.wait(PATIENCE_SECONDS)
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=PATIENCE_SECONDS)
    let_go.set()
    assert (command.returncode, out, err) == (130, b"", b"")


def test_a_reader_that_leaves_early_is_no_error(server):
    records = [
        {"uuid": f"u{n}", "name": f"n{n}", "generation": 0, "parent_provider_uuid": None, "root_provider_uuid": f"u{n}"}
        for n in range(20)
    ]
    server.can("GET /resource_providers", {"resource_providers": records})
    for arguments in (["--json"], []):
        read, write = os.pipe()
        os.close(read)
        try:
            command = [*STEAD, "--url", server.url, "tree", *arguments]
            done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
        finally:
            os.close(write)
        assert (done.returncode, done.stderr) == (141, b"")
