import os
import re
import shlex
import signal
import subprocess
import sys
import threading

import pytest
import yaml

from scripts.commands import leaves
from stead.cli.app import MEANT, SUBCOMMANDS, run
from stead.cli.arguments import OUTPUTS
from stead.cli.documented import DOCUMENTED
from stead.cli.manual import SHARED
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
    assert "--json" in out


LEAVES = dict(leaves())


@pytest.mark.parametrize("words", LEAVES)
def test_the_help_of_every_command_has_an_example_and_calls_values_by_nouns(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run([*words.split(), "--help"]) == 0
    out = capsys.readouterr().out
    examples = [line.strip() for line in out.splitlines() if line.startswith("  $ ")]
    assert len(examples) == 2
    assert all(f"stead {words}" in example for example in examples)
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
    for parameter in (each for each in LEAVES[words].params if each.name not in SHARED):
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
def test_the_examples_of_each_command_are_valid_command_lines(words):
    for example in DOCUMENTED[words].examples:
        (command,) = re.findall(r"(?:^|\| )(stead [^|>]+)", example)
        name, *arguments = shlex.split(command)
        assert name == "stead"
        shared = {"-o", "--quiet"}  # the root's
        taken = [each for each in arguments[len(words.split()) :] if each not in shared | set(OUTPUTS)]
        LEAVES[words].make_context(words, taken)  # else UsageError


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("tre", "tree"), ("ls", "tree"), ("hosts", "provider list"), ("nodes", "provider list"), ("rm", "release")],
)
def test_a_command_that_does_not_exist_is_answered_with_the_one_that_is_meant(typed, meant, capsys):
    assert run([typed]) == 2
    error = f"stead: No such command '{typed}'. Did you mean {meant}? (see `stead --help`)\n"
    assert capsys.readouterr() == ("", error)


def test_each_word_that_is_meant_exists():
    assert set(MEANT.values()) <= set(LEAVES)
    assert not set(MEANT) & set(SUBCOMMANDS)


# Help, as a person sees it.


@pytest.fixture
def screen(monkeypatch, capsys):
    """``screen("tree", "-h")``: the lines on a terminal of 80 columns and 24 lines."""

    def call(*arguments, code=0):
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("LINES", "24")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        assert run(list(arguments)) == code
        return capsys.readouterr().out.splitlines()

    return call


@pytest.mark.parametrize("words", LEAVES)
def test_the_help_of_each_command_fits_a_screen_and_begins_with_two_examples(words, screen):
    lines = screen(*words.split(), "-h")
    assert lines[0].startswith(f"Usage: stead {words}")
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    examples = [place for place, line in enumerate(lines) if line.startswith("  $ ")]
    options = [place for place, line in enumerate(lines) if line.startswith("  -")]
    assert len(examples) == 2
    assert max(examples) < min([*options, 24])
    assert not [line for line in lines if line.startswith("  --url")]
    for parameter in LEAVES[words].params:
        if parameter.param_type_name == "option" and parameter.name not in SHARED:
            assert parameter.opts[0] in " ".join(lines)


@pytest.mark.parametrize("words", [[], ["help"], *([name] for name in SUBCOMMANDS)])
def test_the_help_of_stead_and_of_each_family_fits_a_screen_and_names_all_commands(words, screen):
    lines = screen(*words, *([] if words == ["help"] else ["--help"]))
    assert len(lines) < 24
    assert max(map(len, lines)) <= 79
    if not words or words == ["help"]:
        assert [line[:10] for line in lines if "$" in line] == ["  $ stead "] * 2
        shown = {word for line in lines for word in line.split()}
        assert set(SUBCOMMANDS) <= shown


@pytest.mark.parametrize("spelled", [["tree", "--help"], ["tree", "-h"], ["help", "tree"]])
def test_help_is_spelled_as_hands_expect(spelled, screen):
    assert screen(*spelled)[0] == "Usage: stead tree [OPTIONS] [PROVIDER]"


def test_help_of_a_command_prints_everything_that_the_screen_has_no_room_for(screen):
    brief, whole = screen("claim", "-h"), screen("help", "claim")
    assert len(whole) > 24 > len(brief)
    assert "`stead help claim`" in " ".join(brief)
    assert "The same name is always the same consumer." in " ".join(" ".join(whole).split())


@pytest.mark.parametrize("arguments", [[], ["help"], ["-h"]])
def test_the_help_in_a_pipe_has_a_sentence_for_each_command(arguments, capsys):
    assert run(list(arguments)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in lines[2:4]] == ["  $ ", "  $ "]
    assert {line.split()[0] for line in lines if line.startswith("  ") and "$" not in line} == set(SUBCOMMANDS)


def test_the_folded_options_are_explained_by_help_options(screen):
    lines = screen("help", "options")
    assert any(line.startswith("  --data-dir DIRECTORY") for line in lines)


@pytest.mark.parametrize(
    ("former", "present"), [(["consumers"], ["consumer", "list"]), (["flavors", "show"], ["flavor", "show"])]
)
def test_the_former_name_of_a_command_goes_on_working(former, present, screen):
    assert screen(*former, "-h") == screen(*present, "-h")


# What all commands print alike.

ROOT = {"uuid": "u-1", "name": "n-1", "generation": 0, "parent_provider_uuid": None, "root_provider_uuid": "u-1"}


@pytest.fixture
def one_host(server):
    server.can("GET /resource_providers", {"resource_providers": [ROOT]})
    record = {"total": 3072, "reserved": 0, "min_unit": 1, "max_unit": 9, "step_size": 1, "allocation_ratio": 1.0}
    own = {"generation": 0, "resource_provider_generation": 0}
    path = "GET /resource_providers/u-1"
    server.can(f"{path}/inventories", {"inventories": {"MEMORY_MB": record}, **own})
    server.can(f"{path}/usages", {"usages": {"MEMORY_MB": 1500}, **own})
    server.can(f"{path}/traits", {"traits": ["B", "A"], **own})
    server.can(f"{path}/aggregates", {"aggregates": [], **own})


CELLS = "n-1,u-1,,0,false,3072,1500,0,A B,"


@pytest.mark.parametrize("words", [["tree"], ["provider", "list"]])
@pytest.mark.parametrize(
    ("output", "printed"),
    [
        ("name", "n-1\n"),
        (
            "csv",
            "name,uuid,parent,generation,disabled,MEMORY_MB.capacity,MEMORY_MB.used,MEMORY_MB.reserved,traits,aggregates",
        ),
        ("csv", CELLS),
        ("yaml", "name: n-1\n"),
        ("json", '"name": "n-1"'),
        ("table", "1.46 GiB / 3 GiB"),
        ("wide", "1.46 GiB / 3 GiB"),
    ],
)
def test_an_output_format_means_the_same_everywhere(words, output, printed, one_host, stead):
    ran = stead(*words, "-o", output)
    assert ran.code == 0
    assert printed in ran.out
    assert ran.out != stead(*words, "-o", "name" if output != "name" else "json").out


def test_json_and_yaml_have_the_same_data(one_host, stead):
    assert yaml.safe_load(stead("tree", "-o", "yaml").out) == stead("tree", "--json").json


def test_an_unknown_format_is_wrong_usage(stead):
    ran = stead("tree", "-o", "jsn")
    assert (ran.code, ran.out) == (2, "")
    assert "expected table, wide, json, yaml, csv, name. Did you mean json?" in ran.err


def test_memory_is_exact_with_raw(one_host, stead):
    assert "1,500 / 3,072" in stead("tree", "--raw").out


def test_without_color_means_without(one_host, stead, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in stead("tree").out
    assert "\x1b[" not in stead("tree", "--no-color").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in stead("tree").out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_the_layout_holds_in_a_locale_that_is_not_utf_8(encoding, server, one_host):
    script = "from stead.cli import main; main()"
    environ = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "80", "PYTHONUTF8": "0"}
    command = [sys.executable, "-c", script, "--url", server.url, "tree"]
    ran = subprocess.run(command, env=environ, capture_output=True, check=True)
    out = ran.stdout.decode(encoding)
    assert "?" not in out
    assert re.search(r"n-1 +MEMORY_MB  #+\.+  1\.46 GiB / 3 GiB  +48 %", out)


HEAVY = {
    *("anyio", "asyncio", "email", "falcon", "http.client", "httpx2", "httpcore2", "importlib.metadata", "jsonschema"),
    *("numpy", "oslo_config", "oslo_policy", "os_traits", "pydantic", "rich", "sqlalchemy", "ssl", "yaml"),
    *("stead.auth", "stead.client.aio.site", "stead.client.headroom", "stead.client.what_if", "stead.config"),
}
"""What takes long to import, and is not needed to ask a server something and to print the answer."""


@pytest.mark.parametrize(
    "arguments",
    [
        ["tree"],
        ["provider", "list"],
        ["--no-color", "tree", "--depth", "0"],
        ["completion", "bash", "--line", "stead tr"],
    ],
)
def test_short_commands_import_nothing_heavy(arguments, server, one_host):
    script = f"import sys; from stead.cli.app import run; run({arguments}); print(sorted({HEAVY} & set(sys.modules)))"
    environ = {**os.environ, "STEAD_URL": server.url, "STEAD_TOKEN": "token"}
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [["--help"], ["tree", "--help"], ["claim", "-h"]])
def test_help_does_not_wait_for_what_only_commands_need(arguments):
    heavy = {*HEAVY, "platformdirs", "httptools", "stead.client.blocking.site"}
    script = f"import sys; from stead.cli.app import run; run({arguments}); print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_command_with_a_data_directory_reads_a_file_and_imports_no_server(one_host, server, tmp_path):
    """Finding the server needs its address and its token, not the code that checks tokens."""
    script = (
        "import sys; from stead.cli import server; server._admin_token(server.data_directory()); "
        "print(sorted({'sqlalchemy', 'oslo_config', 'oslo_policy', 'stead.auth', 'pydantic'} & set(sys.modules)))"
    )
    (tmp_path / "admin-token").write_text("secret\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["serve", "db", "audit"])
def test_the_main_process_and_the_commands_for_databases_do_not_wait_for_the_api(command):
    heavy = {"falcon", "jsonschema", "numpy", "oslo_policy.policy"}
    modules = f"import sys, stead.application, stead.cli.local.{command}"
    script = f"{modules}; print(sorted({heavy} & set(sys.modules)))"
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
