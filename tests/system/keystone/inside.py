"""Runs with the Python of Keystone's virtual environment: ``inside.py DIRECTORY PASSWORD``, until its stdin ends.

Makes a Keystone in the directory and serves it twice on loopback, the second time with tokens that live only seconds.
Says where in one line of JSON. Importing Keystone costs seconds; here that is paid once, and every command is a fork.
"""

import grp
import json
import logging
import os
import pwd
import socket
import socketserver
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

warnings.simplefilter("ignore")

from keystone.cmd import manage  # noqa: E402  # what it imports warns
from keystone.server import wsgi  # noqa: E402  # likewise

SHORT_SECONDS = 4
CONFIGURATION = """\
[database]
connection = sqlite:///{place}/keystone.db
[fernet_tokens]
key_repository = {place}/fernet
[fernet_receipts]
key_repository = {place}/receipts
[credential]
key_repository = {place}/credential
[identity]
password_hash_rounds = 4
[token]
expiration = {seconds}
"""


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def in_a_child(call: Callable[[], object]) -> int:
    """The id of a process that makes the *call* and ends."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            call()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        except BaseException:
            traceback.print_exc()
            code = 1
        os._exit(code)
    return child


def command(configuration: Path, *arguments: str) -> None:
    sys.argv = ["keystone-manage", "--config-file", str(configuration), *arguments]
    child = in_a_child(manage.main)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        sys.exit(f"keystone-manage {arguments[0]} failed")


def serve(configuration: Path, listener: socket.socket) -> None:
    sys.argv = ["keystone"]
    application = wsgi.initialize_public_application  # reads its configuration from a directory
    os.environ["OS_KEYSTONE_CONFIG_DIR"] = str(configuration.parent)
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = str(configuration)
    server = Server(listener.getsockname(), Quiet, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.server_name, server.server_port = listener.getsockname()
    server.setup_environ()
    server.set_app(application())
    logging.getLogger().setLevel(logging.WARNING)
    server.serve_forever()


def configured(place: Path, name: str, seconds: int) -> Path:
    file = place / name / "keystone.conf"
    file.parent.mkdir()
    file.write_text(CONFIGURATION.format(place=place, seconds=seconds))
    return file


def main(place: Path, password: str) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no reply
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    urls = [f"http://127.0.0.1:{listener.getsockname()[1]}/v3" for listener in listeners]
    files = [configured(place, "long", 3600), configured(place, "short", SHORT_SECONDS)]
    for keys in ("fernet", "receipts", "credential"):
        (place / keys).mkdir(mode=0o700)
    command(files[0], "db_sync")
    owner, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    command(files[0], "fernet_setup", "--keystone-user", owner, "--keystone-group", group)
    urls_of_it = [f"--bootstrap-{interface}-url={urls[0]}" for interface in ("public", "internal")]
    command(files[0], "bootstrap", "--bootstrap-password", password, *urls_of_it)
    children = [in_a_child(partial(serve, *each)) for each in zip(files, listeners, strict=True)]
    replies.write(json.dumps({"url": urls[0], "short_url": urls[1]}) + "\n")
    replies.flush()
    sys.stdin.read()
    for child in children:
        os.kill(child, 15)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
