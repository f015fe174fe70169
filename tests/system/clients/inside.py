"""Runs with the Python of the clients' virtual environment: ``inside.py URL``. One JSON object per line in, one out.

Importing the openstack command costs a second. Here that is paid once: every command is a fork of this process, so each
one still begins as a fresh ``openstack`` does and ends with an exit code of its own.
"""

import contextlib
import gc
import inspect
import io
import json
import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import Any, NoReturn

import openstack
from keystoneauth1 import adapter, discover, loading, session
from openstack.placement.v1._proxy import Proxy
from openstack.resource import Resource
from openstackclient import shell
from osc_placement import version
from requests import Response

TOKENS = {"admin_token": {"token": "admin"}, "none": {}}

held: list[Any] = []
"""What the SDK returned, by number: some of its calls take such an object."""


def run_command(argv: list[str]) -> dict[str, Any]:
    """What ``openstack *argv*`` says, and its exit code."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            end(argv)
        _, status = os.waitpid(child, 0)
        said = [(file.seek(0), file.read().decode())[1] for file in (out, err)]
        return {"code": os.waitstatus_to_exitcode(status), "out": said[0], "err": said[1]}


def end(argv: list[str]) -> NoReturn:
    """Run the command and end as Python would, but for its tidying up, which takes longer than all the rest."""
    try:
        code = shell.main(argv)
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def auth_of(kind: str | None, url: str) -> Any:
    """A plugin that knows where the service is; None sends no token (the plugin ``none`` does: "notused")."""
    if kind is None:
        return None
    return loading.get_plugin_loader(kind).load_from_options(endpoint=url, **TOKENS[kind])


@cache
def connection(url: str, auth: str = "admin_token", **options: Any) -> openstack.connection.Connection:
    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth_type=auth,
        auth={"endpoint": url, **TOKENS[auth]},
        placement_endpoint_override=url,
        **options,
    )


def called(target: Any, method: str, arguments: list[Any], options: dict[str, Any]) -> dict[str, Any]:
    """What the call returned, in JSON's words, or the exception it raised."""
    options = {name: held[value["held"]] if _is_held(value) else value for name, value in options.items()}
    arguments = [held[value["held"]] if _is_held(value) else value for value in arguments]
    try:
        return {"returned": shown(getattr(target, method)(*arguments, **options))}
    except Exception as error:
        return {
            "raised": [kind.__name__ for kind in type(error).__mro__],
            "status": getattr(error, "http_status", None) or getattr(error, "status_code", None),
            "text": str(error),
            "response": shown(getattr(error, "response", None)),
        }


def _is_held(value: Any) -> bool:
    return isinstance(value, dict) and "held" in value


def shown(value: Any) -> Any:
    if isinstance(value, Resource):
        held.append(value)
        return {"held": len(held) - 1, "fields": value.to_dict(computed=False, original_names=False)}
    if isinstance(value, Response):
        body = value.json() if value.headers.get("content-type") == "application/json" else value.text
        headers = {name.lower(): of for name, of in value.headers.items()}
        return {"status": value.status_code, "headers": headers, "body": body}
    if isinstance(value, discover.EndpointData):
        names = ("url", "api_version", "min_microversion", "max_microversion", "status")
        return {name: shown(getattr(value, name)) for name in names}
    if isinstance(value, Iterator | list | tuple):
        return [shown(item) for item in value]
    return value


def answer(asked: dict[str, Any], url: str) -> dict[str, Any]:
    match asked["what"]:
        case "command":
            return run_command(asked["argv"])
        case "sdk":
            sdk = connection(url, **asked["connect"]).placement
            return called(sdk, asked["method"], asked["arguments"], asked["options"])
        case "adapter":
            auth = auth_of(asked["connect"].pop("auth", "admin_token"), url)
            where = {"endpoint_override": url} if auth is None else {}
            adapted = adapter.Adapter(session.Session(auth), service_type="placement", **where, **asked["connect"])
            return called(adapted, asked["method"], asked["arguments"], asked["options"])
        case _:
            return facts()


def facts() -> dict[str, Any]:
    return {
        "commands": [point.name.replace("_", " ") for point in entry_points(group="openstack.placement.v1")],
        "microversions": version.SUPPORTED_MICROVERSIONS,
        "negotiated": version.MAX_VERSION_NO_GAP,
        "methods": [name for name, _ in inspect.getmembers(Proxy, inspect.isfunction) if name in vars(Proxy)],
    }


def warm_up(url: str) -> None:
    """Import what is imported late. No command that speaks to the server: all children would inherit its client."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        shell.main(["help", "resource", "provider", "list"])
    logging.getLogger().handlers.clear()
    connection(url).placement.get("/")
    gc.freeze()  # what is here already is never garbage: a child need not look at it, nor copy its pages


def main(url: str) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no reply
    warm_up(url)
    for line in sys.stdin:
        replies.write(json.dumps(answer(json.loads(line), url)) + "\n")
        replies.flush()


if __name__ == "__main__":
    main(sys.argv[1])
