"""Traces, as a receiver gets them from real programs: from the call to what its jobs ask hypervisors for."""

import json
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from sqlalchemy import Connection

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.embedded.valkey import free_port
from bulkdeploy.manage.programs.programs import WORKER
from bulkdeploy.store.database.engine import call_outside, run_transaction
from bulkdeploy.telemetry.tracing import SpanKind
from bulkdeploy.wiring.settings import Settings
from tests.support.api.api_client import ApiClient
from tests.support.processes.programs import BULKDEPLOY, bulkdeploy, program, run_to_its_end, wait_for
from tests.support.runs.waiting import wait_for as wait_until
from tests.support.zones.fleet import Fleet
from tests.workers.processes import all_done

pytestmark = pytest.mark.long

TRACE, PROXY = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SERVER, CLIENT, PRODUCER, CONSUMER = 2, 3, 4, 5
"""Kinds of spans, as OTLP numbers them."""

LOADED = """
import sys
import workers.app, workers.sweeper
from bulkdeploy.manage.programs.api import ApiServer
from bulkdeploy.wiring.settings import load_settings
from bulkdeploy.wiring.tracing import start_tracing
start_tracing(load_settings(), "api")
ApiServer(load_settings()).load()
print([name for name in sys.modules if name in ("bulkdeploy.wiring.opentelemetry", "opentelemetry.sdk.trace")])
"""


def test_one_trace_leads_from_a_call_to_its_hypervisors(
    fleet: Fleet, client: ApiClient, quick: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the trace that the proxy began; lines of the log name it, and nothing in it is a parameter's value."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    pytest.importorskip("opentelemetry.sdk", reason="make test-tracing has the packages")
    from tests.support.processes.trace_receiver import receiving

    with receiving() as receiver:
        settings = quick.model_copy(
            update={
                "otlp_endpoint": receiver.url,
                "log_format": "json",
                "listen": f"127.0.0.1:{free_port()}",
                "monitoring_listen": f"127.0.0.1:{free_port()}",
            }
        )
        worker_settings = settings.model_copy(update={"monitoring_listen": f"127.0.0.1:{free_port()}"})
        log, worker_log = tmp_path / "api.log", tmp_path / "worker.log"
        with (
            program(settings, log, *BULKDEPLOY, "api") as api,
            program(worker_settings, worker_log, *WORKER) as worker,
        ):
            wait_for(f"{settings.api_monitoring_url}/health/ready", api, log)
            wait_for(f"{worker_settings.api_monitoring_url}/health/ready", worker, worker_log)
            fleet.fault(Step.BOOT, FaultKind.TRANSIENT, remaining=1)
            sent = client.signed("bulkDeployVirtualMachine", **fleet.zone.bulk_parameters(3))
            answered = ApiClient(settings.url, "", "").request(
                "GET",
                f"/client/api?{urlencode(sent, quote_via=quote)}",
                headers={"traceparent": f"00-{TRACE}-{PROXY}-01", "X-Request-Id": "from-the-proxy"},
            )
            assert answered.status == 200, answered.text
            wait_until(lambda: all_done(fleet))
            wait_until(lambda: len(receiver.named("job deploy_virtual_machine")) >= 3)
            wait_until(lambda: len(receiver.named("bulkDeployVirtualMachine")) == 1)

    (call,) = receiver.named("bulkDeployVirtualMachine")
    assert (call.service, call.kind, call.trace, call.parent) == ("bulkdeploy-api", SERVER, TRACE, PROXY)
    assert call.facts["http.response.status_code"] == 200
    assert call.facts["bulkdeploy.request"] == "from-the-proxy"
    first_plan, sending = receiver.named("plan")[0], receiver.named("send jobs")[0]
    assert (first_plan.parent, first_plan.facts["bulkdeploy.vms"]) == (call.id, 3)
    assert (sending.parent, sending.kind) == (call.id, PRODUCER)

    jobs = receiver.named("job deploy_virtual_machine")
    assert {(job.service, job.kind, job.trace, job.parent) for job in jobs} == {
        ("bulkdeploy-worker", CONSUMER, TRACE, call.id)
    }
    assert {job.facts["bulkdeploy.job"] for job in jobs} == {
        str(row.uuid) for row in fleet.zone.rows("SELECT uuid FROM async_jobs")
    }
    boots = receiver.named("driver boot")
    assert {(boot.trace, boot.kind) for boot in boots} == {(TRACE, CLIENT)}
    assert {boot.parent for boot in boots} <= {job.id for job in jobs}
    assert len([boot for boot in boots if not boot.failed]) == 3
    assert [plan.parent in {job.id for job in jobs} for plan in receiver.named("plan")[1:]] == [True], "elsewhere"
    assert [boot.facts["bulkdeploy.host"] in boot.failed for boot in boots if boot.failed] == [True]

    secrets = {str(value) for name, value in sent.items() if name in ("apiKey", "signature")}
    assert not [span for span in receiver.spans if any(secret in str(span) for secret in secrets)]
    lines = [json.loads(line) for line in worker_log.read_text().splitlines()]
    assert [line["trace"] for line in lines if line["event"] == "driver_call_failed"] == [TRACE]


def test_a_plan_that_waits_for_an_allocator_has_not_failed(fleet: Fleet) -> None:
    """Its transaction begins anew with the answer: two spans, and neither of them is marked."""
    pytest.importorskip("opentelemetry.sdk", reason="make test-tracing has the packages")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from bulkdeploy.wiring.opentelemetry import OpenTelemetryRecorder

    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    recorder = OpenTelemetryRecorder(provider)

    def plan(connection: Connection) -> str:
        with recorder.span("plan", SpanKind.INTERNAL, {}):
            return call_outside(connection, "question", lambda: "answer")

    assert run_transaction(fleet.engine, plan) == "answer"
    assert [(span.name, span.status.status_code.name) for span in spans.get_finished_spans()] == [
        ("plan", "UNSET"),
        ("plan", "UNSET"),
    ]


def test_without_the_setting_none_of_it_is_imported(quick: Settings) -> None:
    """Installed or not, who does not trace waits for nothing."""
    ended = run_to_its_end(quick, "-c", LOADED)
    assert ended.stdout.strip() == "[]", ended.stderr


def test_a_receiver_must_be_an_address_of_http(quick: Settings) -> None:
    """Else the program says so and does not begin."""
    ended = bulkdeploy(quick.model_copy(update={"otlp_endpoint": "collector:4317"}), "api")
    assert ended.returncode == 1
    assert "otlp_endpoint: Value error, must start with http:// or https://" in ended.stderr
