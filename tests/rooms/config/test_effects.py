"""Each option does what it is for: with two values of it, the service that is put together differs.

A value that is lost between the file and its consumer makes no difference, and fails here. So does an option without a
row.
"""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import types
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen
from wsgiref.util import setup_testing_defaults

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from stead import application
from stead.api.query.candidates import stored_request
from stead.auth.tokens import create
from stead.config import Settings, load, settings
from stead.config.options import GROUPS
from stead.domain.errors import SteadError
from stead.observation import Observation, capacity_text
from stead.serve.worker import bounds_of
from stead.ui.sessions import csrf_token
from tests.system.api.client import NEWEST, Api, Provider, fresh_name, fresh_uuid, holding, wsgi_door
from tests.system.deploy.servers import free_port
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from wsgiref.types import WSGIApplication

    from wsgi_lanes.bounds import Bounds

pytestmark = pytest.mark.timeout(120)  # many services are made, one for each option

OWN = f"{NEWEST}, stead 1.0"


class Site:
    """What an operator gets with some options: each part is made when a row asks for it."""

    def __init__(self, directory: Path, options: dict[str, str]) -> None:
        """*options*: ``group.name`` and what a file has for it; ``{dir}`` is a directory of this site."""
        self.directory = directory
        self._ending = ExitStack()
        given = {
            "placement_database.connection": "sqlite:///{dir}/placement.db",
            "placement_database.sync_on_startup": "true",
            "api.auth_strategy": "noauth2",
            **options,
        }
        self.file = directory / "placement.conf"
        with self.file.open("w") as file:
            for each, text in given.items():
                group, _, name = each.partition(".")
                file.write(f"[{group}]\n{name} = {text.replace('{dir}', str(directory))}\n")

    def close(self) -> None:
        self._ending.close()

    @cached_property
    def settings(self) -> Settings:
        return load([self.file])

    @cached_property
    def observation(self) -> Observation:
        made = Observation(self.settings)
        self._ending.callback(made.close)
        return made

    @cached_property
    def service(self) -> Any:
        made = application.build_service(self.settings, self.observation)
        self._ending.callback(made.close)
        return made

    @cached_property
    def store(self) -> Any:
        made = application.open_store(self.settings.database)
        self._ending.callback(made.close)
        return made

    @cached_property
    def app(self) -> WSGIApplication:
        return application.assemble(self.service, self.settings, self.observation)

    @cached_property
    def api(self) -> Api:
        return Api(wsgi_door(self.app))

    def log(self) -> str:
        """What a process writes that puts the application together and answers one request."""
        script = (
            "import sys, logging; from pathlib import Path; from stead.config import load\n"
            "from stead.application import build_application\n"
            "build_application(load([Path(sys.argv[1])])); logging.getLogger('test').warning('it serves')"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, str(self.file)], capture_output=True, text=True, timeout=60, check=True
        )
        return done.stderr

    def refusal(self) -> str | None:
        """Why it does not start."""
        try:
            _ = self.service
        except SteadError as error:
            return type(error).__name__
        return None

    def status(self, method: str = "GET", path: str = "/", **headers: str) -> int:
        return self.answer(method, path, **headers)[0]

    def answer(self, method: str = "GET", path: str = "/", **headers: str) -> tuple[int, dict[str, str]]:
        """Status and headers of an answer that may have any form."""
        sent = [(name.replace("_", "-"), value) for name, value in headers.items()]
        status, fields, _ = wsgi_door(self.app)(method, path, sent, None)
        return status, {name.lower(): value for name, value in fields if name.lower() != "x-openstack-request-id"}

    def streams(self, number: int) -> list[str]:
        """The statuses of so many streams of changes, of which none ends before all have begun."""
        statuses: list[str] = []
        with ExitStack() as ending:
            for _ in range(number):
                environ: dict[str, Any] = {}
                setup_testing_defaults(environ)
                environ |= {
                    "wsgi.multithread": True,
                    "PATH_INFO": "/changes",
                    "HTTP_X_AUTH_TOKEN": "admin",
                    "HTTP_ACCEPT": "text/event-stream",
                    "HTTP_OPENSTACK_API_VERSION": f"placement {OWN}",
                }
                body = self.app(environ, lambda status, *_: statuses.append(status))  # type: ignore[arg-type,return-value]  # a start_response that returns no write
                ending.callback(getattr(body, "close", lambda: None))
        return statuses

    def hosts(self, number: int, **inventories: int) -> list[Provider]:
        return [self.api.create_provider(inventories=inventories or {"VCPU": 8}) for _ in range(number)]


def holds(start: object, value: object) -> bool:
    """Whether *start* has *value* somewhere in it, other than in the settings themselves."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        each = waiting.pop()
        if type(each) is type(value) and each == value:
            return True
        if id(each) in seen or isinstance(each, type | types.ModuleType | types.FrameType | cfg.ConfigOpts | Settings):
            continue
        if type(each).__module__ == settings.__name__ or (isinstance(each, dict) and "__builtins__" in each):
            continue
        seen.add(id(each))
        waiting.extend(gc.get_referents(each))
    return False


@dataclass(frozen=True)
class Row:
    """Two values of an option, and what differs between them."""

    look: Callable[[Site], object]
    values: tuple[str, str]
    more: dict[str, str] = field(default_factory=dict)


def held(value: float | str, other: str, **more: str) -> Row:
    """For what shows itself after a long time only, or on other databases: the service has the value in it."""
    return Row(lambda site: holds(site.service, value), (str(value), other), more)


def snapshot_file(site: Site) -> object:
    site.service.store_snapshot()
    keeper = site.service._snapshot_file
    return keeper is not None and keeper._path.exists()


def preflight(site: Site) -> object:
    asked = {"Origin": "https://one.example", "Access_Control_Request_Method": "PUT"}
    return site.answer("OPTIONS", "/traits", **asked, Access_Control_Request_Headers="x-extra")


def with_origin(site: Site) -> object:
    return site.answer("GET", "/", Origin="https://one.example")


def first_roots(site: Site) -> object:
    for root in site.hosts(2):
        for _ in range(2):
            site.api.create_provider(parent=root, inventories={"DISK_GB": 10})
    answer = site.api.get("/allocation_candidates?resources=DISK_GB:1").expect(200)
    return len({each["root_provider_uuid"] for each in answer.provider_summaries.values()})


def first_root(site: Site) -> object:
    full, _empty = site.hosts(2)
    site.api.claim((full, {"VCPU": 1}))
    answer = site.api.get("/allocation_candidates?resources=VCPU:1&limit=1").expect(200)
    return list(answer.provider_summaries) == [full.uuid]


def drawn(site: Site) -> object:
    site.hosts(10)
    query = "/allocation_candidates?resources=VCPU:1&limit=1"
    return len({next(iter(site.api.get(query).provider_summaries)) for _ in range(20)}) > 1


def bounds(site: Site) -> Bounds:
    """What a worker of `stead serve` is started with."""
    return bounds_of(site.settings)


def offered_write(site: Site) -> object:
    """What a session may do through the web interface. The cookie is that of the user admin of `noauth2`."""
    form = {"Cookie": "stead-session=YWRtaW4=", "X-Stead-CSRF": csrf_token("admin")}
    return wsgi_door(site.app)("DELETE", "/ui/api/traits/CUSTOM_X", list(form.items()), None)[0]


def name_of_project(site: Site) -> object:
    """Whether the Consumers page names the project ``demo``. The cookie is that of the user admin of `noauth2`."""
    (host,) = site.hosts(1)
    body = {"allocations": {host.uuid: {"resources": {"VCPU": 1}}}, "project_id": "demo", "user_id": "u"}
    site.api.at("1.28").put(f"/allocations/{fresh_uuid()}", {**body, "consumer_generation": None}).expect(204)
    page = wsgi_door(site.app)("GET", "/ui/consumers", [("Cookie", "stead-session=YWRtaW4=")], None)
    return b"the demo project" in page[2]


def owner(site: Site) -> object:
    (host,) = site.hosts(1)
    consumer = fresh_uuid()
    body = {"allocations": [{"resource_provider": {"uuid": host.uuid}, "resources": {"VCPU": 1}}]}
    site.api.at("1.0").put(f"/allocations/{consumer}", body).expect(204)
    shown = site.api.get(f"/allocations/{consumer}").expect(200)
    return shown.project_id, shown.user_id


def number_found(site: Site) -> object:
    site.hosts(4)
    answer = site.api.get("/allocation_candidates?resources=VCPU:1")
    return answer.header("stead-incomplete"), len(answer.allocation_requests)


def traced(site: Site) -> object:
    statements: list[str] = []
    api = site.api

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    sa.event.listen(sa.Engine, "after_cursor_execute", note)
    try:
        api.create_trait()
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", note)
    return any("/* stead/store/" in statement for statement in statements)


def attempts(site: Site) -> object:
    """What is said of a database that does not answer."""
    messages: list[str] = []
    listener = logging.Handler()
    listener.emit = lambda record: messages.append(record.getMessage().rpartition(";")[2])  # type: ignore[method-assign]  # a handler of this test
    logger = logging.getLogger(application.__name__)
    logger.setLevel(logging.INFO)
    logger.disabled = False  # whatever ran before in this test
    logger.addHandler(listener)
    try:
        assert site.refusal() == "Unavailable"
    finally:
        logger.removeHandler(listener)
    return messages


UNREACHABLE = {"placement_database.connection": f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"}


def scraped(site: Site) -> object:
    site.observation.start(site.service)
    address = site.settings.watch.metrics
    if address is None:
        return None
    url = f"http://127.0.0.1:{address[1]}/metrics"

    def status() -> int | None:
        with suppress(URLError), urlopen(url, timeout=60) as answer:
            return int(answer.status)
        return None

    return wait_until(status, "no metrics")


def capacity_levels(site: Site) -> object:
    host = {"VCPU": 8}
    site.api.create_provider(inventories=host, traits=["HW_CPU_X86_AVX"])
    watch = site.settings.watch
    text = capacity_text(site.service, watch.capacity, watch.capacity_traits)
    return [word in text for word in ("hostname=", "trait=")]


def flavor_rooms(site: Site) -> object:
    site.api.create_provider(inventories={"VCPU": 8})
    site.api.at(f"{NEWEST}, stead 1.1").put("/flavors/m1", {"query": "resources=VCPU:2"}).expect(201)
    text = site.observation.site_text(site.service, stored_request)
    return [word in text for word in ('stead_headroom{flavor="m1"} ', 'aggregate="zone-a"')]


def reported(site: Site) -> object:
    site.observation.start(site.service)
    site.observation.close()
    return [any((site.directory / name).iterdir()) for name in ("one", "two")]


def two_groups(site: Site) -> object:
    site.hosts(1)
    return site.api.get("/allocation_candidates?resources1=VCPU:1&resources2=VCPU:1&group_policy=none").status


def two_allocations(site: Site) -> object:
    first, second = site.hosts(2)
    return site.api.put(f"/allocations/{fresh_uuid()}", holding((first, {"VCPU": 1}), (second, {"VCPU": 1}))).status


def two_tree_providers(site: Site) -> object:
    providers = [{"name": fresh_name()} for _ in "12"]
    own = site.api.at(f"{NEWEST}, stead 1.1")
    return own.put("/provider_trees", {"provider_trees": [{"providers": providers}]}).status


def two_claims(site: Site) -> object:
    site.hosts(1)
    wish = {
        "query": "resources=VCPU:1",
        "project_id": "a",
        "user_id": "b",
        "consumer_type": "C",
        "consumer_generation": None,
    }
    return site.api.at(OWN).post("/claims", {"claims": [{**wish, "consumer_uuid": fresh_uuid()} for _ in "12"]}).status


def lease_of_a_minute(site: Site) -> object:
    (host,) = site.hosts(1)
    body = {**holding((host, {"VCPU": 1})), "lease": 60}
    return site.api.at(f"{NEWEST}, stead 1.2").put(f"/allocations/{fresh_uuid()}", body).status


def forwarded(site: Site) -> object:
    made = site.api.call("POST", "/resource_providers", {"name": "a"}, headers={"X-Forwarded-Host": "front.example"})
    return "front.example" in str(made.expect(200).headers)


def compressed(site: Site) -> object:
    sent = {"X_Auth_Token": "admin", "OpenStack_API_Version": f"placement {NEWEST}", "Accept_Encoding": "gzip"}
    return "content-encoding" in site.answer("GET", "/traits", **sent)[1]


def while_streaming(site: Site) -> object:
    return site.streams(2)


def synchronous(site: Site) -> object:
    with site.store.writer.connect() as connection:
        return connection.exec_driver_sql("PRAGMA synchronous").scalar()


def of_token(site: Site) -> object:
    for name in ("one", "two"):
        (site.directory / name).mkdir()
    path = site.directory / "one" / "tokens.json"
    token = create(path, "a", user="a", project="a", roles=["admin"])
    (site.directory / "two" / "tokens.json").write_text('{"tokens": []}')
    return site.status("GET", "/traits", X_Auth_Token=token)


def directories(site: Site) -> Site:
    for name in ("one", "two"):
        (site.directory / name).mkdir()
    return site


TOKEN = {"api.auth_strategy": "token"}
LOUD = {"DEFAULT.debug": "true"}
CORS = {"cors.allowed_origin": "https://one.example"}
DATABASE = "placement_database"

ROWS: dict[str, Row] = {
    "DEFAULT.pybasedir": Row(
        of_token, ("{dir}/one", "{dir}/two"), {**TOKEN, "stead.token_file": "$pybasedir/tokens.json"}
    ),
    "DEFAULT.state_path": Row(
        of_token, ("{dir}/one", "{dir}/two"), {**TOKEN, "stead.token_file": "$state_path/tokens.json"}
    ),
    "DEFAULT.log_options": Row(lambda site: "placement_database.connection " in site.log(), ("true", "false"), LOUD),
    "api.auth_strategy": Row(
        lambda site: site.status("GET", "/traits", X_Auth_Token="admin"),
        ("noauth2", "token"),
        {"stead.token_file": str(Path(__file__).parent / "no_tokens.json")},
    ),
    f"{DATABASE}.connection": Row(
        lambda site: (site.service, (site.directory / "a.db").exists())[1], ("sqlite:///{dir}/a.db", "sqlite:///{dir}/b.db")
    ),
    f"{DATABASE}.connection_parameters": Row(
        lambda site: site.store.writer.url.query, ("cached_statements=7", "cached_statements=9")
    ),
    f"{DATABASE}.sqlite_synchronous": Row(synchronous, ("true", "false")),
    f"{DATABASE}.mysql_sql_mode": held("ANSI_QUOTES,NO_ZERO_DATE", "TRADITIONAL"),
    f"{DATABASE}.connection_recycle_time": held(4321, "4322"),
    f"{DATABASE}.max_pool_size": Row(lambda site: [each.most for each in site.store.pools().values()], ("3", "4")),
    f"{DATABASE}.max_overflow": Row(lambda site: [each.most for each in site.store.pools().values()], ("3", "4")),
    f"{DATABASE}.pool_timeout": Row(lambda site: site.store.writer.pool.timeout(), ("3", "4")),
    f"{DATABASE}.max_retries": Row(attempts, ("1", "2"), {**UNREACHABLE, f"{DATABASE}.retry_interval": "0"}),
    f"{DATABASE}.retry_interval": Row(attempts, ("0", "1"), {**UNREACHABLE, f"{DATABASE}.max_retries": "1"}),
    f"{DATABASE}.connection_debug": Row(lambda site: "sqlalchemy.engine" in site.log(), ("0", "50"), LOUD),
    f"{DATABASE}.connection_trace": Row(traced, ("false", "true")),
    f"{DATABASE}.sync_on_startup": Row(lambda site: site.refusal(), ("true", "false")),
    "placement.randomize_allocation_candidates": Row(drawn, ("true", "false")),
    "placement.incomplete_consumer_project_id": Row(owner, ("one", "two")),
    "placement.incomplete_consumer_user_id": Row(owner, ("one", "two")),
    "placement.max_allocation_candidates": Row(number_found, ("2", "3")),
    "placement.allocation_candidates_generation_strategy": Row(
        first_roots, ("depth-first", "breadth-first"), {"placement.max_allocation_candidates": "2"}
    ),
    "cors.allowed_origin": Row(with_origin, ("https://one.example", "https://two.example")),
    "cors.allow_credentials": Row(with_origin, ("true", "false"), CORS),
    "cors.expose_headers": Row(with_origin, ("X-One", "X-Two"), CORS),
    "cors.max_age": Row(preflight, ("7", "8"), {**CORS, "cors.allow_headers": "X-Extra"}),
    "cors.allow_methods": Row(preflight, ("GET", "PUT"), {**CORS, "cors.allow_headers": "X-Extra"}),
    "cors.allow_headers": Row(preflight, ("X-Other", "X-Extra"), CORS),
    "oslo_middleware.enable_proxy_headers_parsing": Row(forwarded, ("true", "false")),
    "stead.token_file": Row(of_token, ("{dir}/one/tokens.json", "{dir}/two/tokens.json"), TOKEN),
    "stead.write_timeout": held(31.25, "9"),
    "stead.claim_timeout": held(31.25, "9"),
    "stead.answer_timeout": held(31.25, "9"),
    "stead.require_durable_commits": Row(
        lambda site: site.refusal(), ("true", "false"), {f"{DATABASE}.sqlite_synchronous": "false"}
    ),
    "stead.reconcile_interval": Row(
        lambda site: (site.service, "reconcile" in {thread.name for thread in threading.enumerate()})[1], ("0", "30")
    ),
    "stead.max_lease": Row(lease_of_a_minute, ("59", "60")),
    "stead.expiry_interval": Row(lambda site: site.service._expiry_interval, ("0.5", "2")),
    "stead.snapshot_dir": Row(snapshot_file, ("", "{dir}")),
    "stead.snapshot_interval": Row(
        lambda site: site.service._snapshot_file and site.service._snapshot_file.interval,
        ("20", "30"),
        {"stead.snapshot_dir": "{dir}"},
    ),
    "stead.max_watchers": Row(lambda site: site.streams(2), ("1", "2")),
    "stead.max_watcher_threads": Row(lambda site: site.streams(2), ("1", "2")),
    "stead.max_connections": Row(bounds, ("300", "400")),
    "stead.max_head_size": Row(bounds, ("3000", "4000")),
    "stead.head_timeout": Row(bounds, ("3", "4")),
    "stead.idle_timeout": Row(bounds, ("3", "4")),
    "stead.body_timeout": Row(bounds, ("3", "4")),
    "stead.max_bodies_size": Row(bounds, ("3000000", "4000000")),
    "stead.send_timeout": Row(bounds, ("3", "4")),
    "stead.max_unsent_size": Row(bounds, ("3000000", "4000000")),
    "stead.max_queue": Row(bounds, ("3", "4")),
    "stead.max_queue_per_client": Row(bounds, ("3", "4")),
    "stead.queue_timeout": Row(bounds, ("3", "4")),
    "stead.proxy_protocol_from": Row(bounds, ("", "192.0.2.0/24, 2001:db8::1")),
    "stead.worker_timeout": Row(lambda site: site.settings.http.worker_timeout, ("3", "0")),  # see test_serving
    "stead.kept_changes": held(4321, "4322"),
    "stead.max_claims": Row(two_claims, ("1", "2")),
    "stead.max_tree_providers": Row(two_tree_providers, ("1", "2")),
    "stead.max_body_size": Row(
        lambda site: site.api.post("/resource_providers", {"name": fresh_name()}).status, ("5", "5000")
    ),
    "stead.max_answer_size": Row(
        lambda site: (site.hosts(1), site.api.get("/resource_providers").status)[1], ("5", "5000")
    ),
    "stead.max_query_length": Row(lambda site: site.api.get("/traits?name=in:HW_CPU_X86_AVX").status, ("5", "500")),
    "stead.max_request_groups": Row(two_groups, ("1", "2")),
    "stead.max_suffix_length": Row(
        lambda site: site.api.get("/allocation_candidates?resources_abcd=VCPU:1").status, ("2", "5")
    ),
    "stead.max_allocations": Row(two_allocations, ("1", "2")),
    "stead.max_candidate_work": Row(number_found, ("1", "0")),
    "stead.default_order": Row(first_root, ("pack", "spread")),
    "stead.max_concurrent_requests": Row(while_streaming, ("1", "2")),
    "stead.metrics": Row(scraped, (str(free_port()), ""), {"stead.metrics_directory": "{dir}"}),
    "stead.metrics_directory": Row(
        lambda site: reported(directories(site)), ("{dir}/one", "{dir}/two"), {"stead.metrics": str(free_port())}
    ),
    "stead.capacity_metrics": Row(capacity_levels, ("totals", "hosts")),
    "stead.capacity_traits": Row(capacity_levels, ("", "HW_CPU_X86_AVX")),
    "stead.headroom_metrics": Row(flavor_rooms, ("false", "true")),
    "stead.headroom_aggregates": Row(
        flavor_rooms, ("", "zone-a:2e8b1c5a-6d1f-4c55-9f0e-0b6a6a1f2c11"), {"stead.headroom_metrics": "true"}
    ),
    "stead.log_json": Row(lambda site: site.log().startswith("{"), ("true", "false")),
    "stead.traces": Row(lambda site: len(site.observation.watchers), ("true", "false")),
    "stead.path_prefix": Row(lambda site: site.status("GET", "/one/"), ("/one", "/two")),
    "stead.compress_responses": Row(compressed, ("true", "false")),
    "stead.ui": Row(lambda site: site.status("GET", "/ui/sign-in"), ("true", "false")),
    "stead.ui_writes": Row(offered_write, ("true", "false")),
    "stead.ui_aliases": Row(name_of_project, ("", str(Path(__file__).parent / "aliases.json"))),
    "stead.ui_hosts": Row(
        lambda site: site.status("GET", "/ui/sign-in", Host="one.example"), ("one.example", "two.example")
    ),
    "stead.public_docs": Row(lambda site: site.status("GET", "/docs"), ("true", "false")),
}  # fmt: skip

ACCEPTED = {
    "DEFAULT.tempdir",
    f"{DATABASE}.slave_connection",
    "placement.allocation_conflict_retry_count",
    "workarounds.optimize_for_wide_provider_trees",
}
"""Options of existing configurations that have no effect, and say so."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Site]]:
    with ExitStack() as closing:

        def make(options: dict[str, str]) -> Site:
            directory = tmp_path / f"site{len(list(tmp_path.iterdir()))}"
            directory.mkdir()
            made = Site(directory, options)
            closing.callback(made.close)
            return made

        yield make


@pytest.mark.parametrize("option", ROWS)
def test_an_option_makes_a_difference(site: Callable[[dict[str, str]], Site], option: str) -> None:
    row = ROWS[option]
    looks = []
    for value in row.values:
        made = site({**row.more, option: value})
        looks.append(row.look(made))
        made.close()
    assert looks[0] != looks[1]


def test_every_option_makes_a_difference_or_says_that_it_makes_none() -> None:
    helps = {f"{group}.{option.dest}": option.help for group, options in GROUPS.items() for option in options}
    assert helps.keys() == ROWS.keys() | ACCEPTED
    for option, text in helps.items():
        assert (option in ACCEPTED) == str(text).startswith("Accepted for compatibility") or (
            option == f"{DATABASE}.slave_connection" and "Accepted for compatibility" in str(text)
        )


def test_every_value_of_the_settings_is_read_somewhere_else() -> None:
    house = Path(settings.__file__).parents[1]
    code = "\n".join(
        path.read_text() for path in house.rglob("*.py") if path not in (Path(settings.__file__), Path(__file__))
    )
    values = {
        each.name
        for kind in vars(settings).values()
        if is_dataclass(kind) and kind.__module__ == settings.__name__
        for each in fields(kind)
    }
    assert {name for name in values if f".{name}" not in code} == set()
