"""The request log in both forms, and traces, of the application in this process."""

import json
import logging

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from oslo_log.formatters import ContextFormatter

from stead import application
from stead.api import middleware
from stead.config import load
from stead.observe.activity import ActivityCounts
from stead.observe.log import JsonLines, Tracing, held_back
from tests.conftest import write_configuration
from tests.system.api.client import Api, fresh_name, wsgi_door

LOGGER = "placement.requestlog"


class Watched:
    """A service whose requests are watched by whom a test wants."""

    def __init__(self, directory):
        self.settings = load([write_configuration(directory, f"sqlite:///{directory}/placement.db")])
        self.service = application.build_service(self.settings)
        self.watchers = []
        self.activity_counts = ActivityCounts()  # of the web interface; not among the watchers, since no test wants it
        self.api = Api(wsgi_door(application.assemble(self.service, self.settings, self)))

    def all_workers(self):
        return None

    def signed_in(self, outcome):
        pass


@pytest.fixture
def watched(tmp_path):
    watched = Watched(tmp_path)
    yield watched
    watched.service.close()


def lines_of(caplog):
    return [json.loads(JsonLines().format(record)) for record in caplog.records if record.name == LOGGER]


def test_a_line_of_json_has_what_the_text_does_not(watched, caplog):
    watched.api.set_inventories(watched.api.create_provider(fresh_name()), {"VCPU": 4})
    caplog.set_level(logging.INFO, logger=LOGGER)
    given = "req-11111111-2222-3333-4444-555555555555"
    answer = watched.api.get("/allocation_candidates?resources=VCPU:1", headers=[("X-Openstack-Request-Id", given)])
    (line,) = lines_of(caplog)
    assert line["message"] == caplog.messages[-1]
    assert line["request_id"] == answer.header("x-openstack-request-id")
    assert line["global_request_id"] == given
    assert (line["method"], line["target"]) == ("GET", "/allocation_candidates?resources=VCPU:1")
    assert (line["route"], line["status"], line["project"]) == ("/allocation_candidates", 200, "admin")
    assert line["candidates"] == len(answer.json["allocation_requests"])
    assert line["bytes"] == len(answer.body)
    assert {"refresh", "resolve", "render"} <= line["phases"].keys()
    assert 0 < sum(line["phases"].values()) <= line["seconds"] < 60
    assert "phases" not in caplog.messages[-1]


def test_a_repeated_query_has_a_line_of_its_own_with_its_only_phase(watched, caplog):
    watched.api.set_inventories(watched.api.create_provider(fresh_name()), {"VCPU": 4})
    caplog.set_level(logging.INFO, logger=LOGGER)
    for _ in range(2):
        watched.api.get("/allocation_candidates?resources=VCPU:1").expect(200)
    first, again = lines_of(caplog)
    assert again["request_id"] != first["request_id"]
    assert (again["candidates"], again["bytes"]) == (first["candidates"], first["bytes"])
    assert again["phases"].keys() == {"refresh"} < first["phases"].keys()


def test_a_line_of_text_says_who_asked_as_the_options_have_it(watched, caplog):
    caplog.set_level(logging.INFO, logger=LOGGER)
    given = "req-11111111-2222-3333-4444-555555555555"
    answer = watched.api.get("/traits", headers=[("X-Auth-Token", "admin:proj9"), ("X-Openstack-Request-Id", given)])
    conf = watched.settings.conf
    conf.set_override("logging_user_identity_format", "%(user)s of %(project)s, %(domain)s")
    line = ContextFormatter(config=conf).format(caplog.records[-1])
    own = answer.header("x-openstack-request-id")
    assert f' INFO {LOGGER} [{given} {own} admin of proj9, -] 127.0.0.1 "GET /traits" status: 200 ' in line


def test_what_is_said_before_the_log_is_set_up_goes_where_it_will(caplog):
    with held_back("oslo_config"):
        logging.getLogger("oslo_config.cfg").warning("Deprecated: %s", "this")
        assert caplog.messages == []
    assert caplog.messages == ["Deprecated: this"]
    logging.getLogger("oslo_config.cfg").warning("later")
    assert caplog.messages == ["Deprecated: this", "later"]


def test_what_was_refused_names_the_error(watched, caplog):
    caplog.set_level(logging.INFO, logger=LOGGER)
    watched.api.get("/resource_providers/11111111-2222-4333-8444-555555555555")
    watched.api.get("/nowhere")
    missing, nowhere = lines_of(caplog)
    assert (missing["error"], missing["route"]) == ("ProviderNotFound", "/resource_providers/{uuid}")
    assert "route" not in nowhere


def test_a_traceback_is_one_field():
    try:
        raise ValueError("line\nbreak")
    except ValueError as error:
        record = logging.LogRecord("a", logging.ERROR, "", 1, "it %s", ("failed",), (type(error), error, None))
    line = JsonLines().format(record)
    assert "\n" not in line
    assert json.loads(line)["traceback"].startswith("ValueError")
    assert json.loads(line)["message"] == "it failed"


def test_where_nobody_looks_nothing_is_noted(watched, monkeypatch):
    monkeypatch.setattr(middleware, "Notes", None)  # it would fail
    logging.getLogger(LOGGER).setLevel(logging.WARNING)
    try:
        assert watched.api.get("/allocation_candidates?resources=VCPU:1").status == 200
    finally:
        logging.getLogger(LOGGER).setLevel(logging.NOTSET)


def test_a_request_is_a_span_below_the_caller_s_with_its_phases(tmp_path):
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    watched = Watched(tmp_path)
    watched.watchers = [Tracing(provider)]
    api = Api(wsgi_door(application.assemble(watched.service, watched.settings, watched)))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    api.get("/allocation_candidates?resources=VCPU:1", headers=[("traceparent", parent)])
    *phases, request = spans.get_finished_spans()
    assert request.name == "GET /allocation_candidates"
    assert f"{request.context.trace_id:032x}" == parent.split("-")[1]
    assert f"{request.parent.span_id:016x}" == parent.split("-")[2]
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["stead.candidates"] == 0
    assert [span.name for span in phases][:2] == ["refresh", "resolve"]
    for span in phases:
        assert span.parent.span_id == request.context.span_id
        assert request.start_time <= span.start_time <= span.end_time <= request.end_time
    watched.service.close()
