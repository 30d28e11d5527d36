"""What a user reads when the server cannot be used."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import iwf_temporal_flows as flows
import pytest
import trustme
from google.protobuf.duration_pb2 import Duration
from temporalio.api.operatorservice.v1 import DeleteNamespaceRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client as RawClient
from temporalio.service import TLSConfig

from iworkflow.core import AppDefinition, engine
from iworkflow.temporal import TemporalClient, TemporalRuntime, access, dev, versions
from iworkflow.temporal.heart import Pulse


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address at which nobody listens, for as long as the test runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


async def told(address: str, **settings: object) -> str:
    client = TemporalClient(address, **settings)  # type: ignore[arg-type]
    with pytest.raises(ConnectionError) as caught:
        await client.start(APP.target(flows.waits), id="any")
    await client.close()
    return str(caught.value)


APP = AppDefinition("connected", flows=[flows.waits])


async def test_a_server_that_is_down(nowhere: str) -> None:
    """Client and runtime say the same: where, why, and what to do."""
    expected = (
        f"cannot reach Temporal at {nowhere} (connection refused); "
        'run "iworkflow dev --temporal" or set TEMPORAL_ADDRESS'
    )
    assert await told(nowhere) == expected
    runtime = TemporalRuntime(nowhere)
    with pytest.raises(ConnectionError) as caught:
        await runtime.start(APP)
    assert str(caught.value) == expected
    with pytest.raises(ConnectionError):
        await runtime.done()


async def test_the_environment_names_the_server(
    nowhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporal's own variables count; an argument comes before them."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", nowhere)
    client = engine("temporal").client()
    with pytest.raises(ConnectionError, match=nowhere):
        await client.__aenter__()


async def test_a_namespace_that_is_missing(server: str) -> None:
    """The error names it and the variable."""
    assert await told(server, namespace="elsewhere") == (
        f"cannot reach Temporal at {server} (no namespace 'elsewhere'); "
        "create it or set TEMPORAL_NAMESPACE"
    )


@pytest.mark.timeout(150)
async def test_a_namespace_that_goes(server: str, app_name: str) -> None:
    """The worker breaks, and says why: Temporal's own would ask on for ever."""
    raw = await RawClient.connect(server)
    await raw.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=app_name, workflow_execution_retention_period=Duration(seconds=86400)
        )
    )
    runtime = TemporalRuntime(server, namespace=app_name)
    await _usable(server, app_name)
    await runtime.start(AppDefinition(app_name, flows=[flows.waits]))
    done = asyncio.create_task(runtime.done())
    await asyncio.sleep(0)
    assert not done.done()
    await raw.operator_service.delete_namespace(DeleteNamespaceRequest(namespace=app_name))
    with pytest.raises(ConnectionError, match=f"no namespace '{app_name}'"):
        await asyncio.wait_for(done, 50)
    await runtime.stop(0)


async def _usable(server: str, namespace: str) -> None:
    """Wait until the server knows a namespace that was just registered."""
    async with asyncio.timeout(30):
        while True:
            try:
                async with TemporalClient(server, namespace=namespace) as client:
                    await client.list(limit=1)
                return
            except ConnectionError:
                await asyncio.sleep(0.2)


async def test_tls_that_the_server_does_not_speak(server: str) -> None:
    """The error says that it is TLS, and where to look."""
    text = await told(server, tls=True)
    assert text.startswith(f"cannot reach Temporal at {server} (TLS failed")
    assert "check TEMPORAL_TLS" in text


@asynccontextmanager
async def tls_server(certificate: trustme.LeafCert, trusted: trustme.CA) -> AsyncGenerator[str]:
    """Listen with a certificate, and ask for one that the trusted authority has issued."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    certificate.configure_cert(context)
    trusted.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    server = await asyncio.start_server(_hang_up, "localhost", 0, ssl=context)
    async with server:
        yield f"localhost:{server.sockets[0].getsockname()[1]}"


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.close()


YESTERDAY = datetime.now(UTC) - timedelta(days=1)


@pytest.mark.parametrize(
    ("sort", "why"),
    [
        ("expired", "the server's certificate has expired"),
        ("foreign", "the server's certificate is from an unknown issuer"),
        ("another host's", "the server's certificate is for another host"),
    ],
)
async def test_a_certificate_that_is_refused(sort: str, why: str) -> None:
    """The error says that it is TLS and what is wrong with it, on a real TLS connection."""
    ours, theirs = trustme.CA(), trustme.CA()
    issued = (theirs if sort == "foreign" else ours).issue_cert(
        "elsewhere" if sort == "another host's" else "localhost",
        not_after=YESTERDAY if sort == "expired" else None,
    )
    async with tls_server(issued, ours) as address:
        text = await told(address, tls=TLSConfig(server_root_ca_cert=ours.cert_pem.bytes()))
    assert text.startswith(f"cannot reach Temporal at {address} (TLS failed")
    assert why in text
    assert text.endswith("check TEMPORAL_TLS and its certificate and key")


@pytest.mark.parametrize("secure", [True, False], ids=["no certificate", "no TLS"])
async def test_a_server_that_wants_a_certificate(secure: bool) -> None:
    """It only hangs up; the error says why that may be."""
    ours = trustme.CA()
    tls = TLSConfig(server_root_ca_cert=ours.cert_pem.bytes()) if secure else False
    async with tls_server(ours.issue_cert("localhost"), ours) as address:
        text = await told(address, tls=tls)
    assert text == (
        f"cannot reach Temporal at {address} (the server hung up); check TEMPORAL_TLS and its "
        "certificate and key: it may want TLS, or a client's certificate"
    )


class _Gate(grpc.GenericRpcHandler):
    """Refuse every call whose API key is not the right one; with it, nobody knows the namespace."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        key = dict(handler_call_details.invocation_metadata).get("authorization")
        method = handler_call_details.method.rpartition("/")[2]

        async def call(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            if method == "GetSystemInfo":
                return b""
            if key != "Bearer right":
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "API key has expired")
            await context.abort(grpc.StatusCode.NOT_FOUND, "no workflow")
            return b""

        return grpc.unary_unary_rpc_method_handler(call)


@pytest.fixture
async def gate() -> AsyncGenerator[str]:
    """The address of a server that asks for an API key."""
    server = grpc.aio.server(handlers=[_Gate()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def test_an_api_key_that_is_refused(gate: str) -> None:
    """The error repeats what the server said, and names the variable."""
    assert await told(gate, api_key="wrong", tls=False) == (
        f"cannot reach Temporal at {gate} (access to namespace 'default' refused: "
        "API key has expired); check TEMPORAL_API_KEY, TEMPORAL_NAMESPACE and the TLS certificate"
    )
    async with TemporalClient(gate, api_key="right", tls=False):
        pass


class _Starting(grpc.GenericRpcHandler):
    """Listen, but refuse as a server that starts: it is not healthy, then knows no namespace."""

    def __init__(self) -> None:
        self.left = [
            (grpc.StatusCode.UNAVAILABLE, "Frontend is not healthy yet"),
            (grpc.StatusCode.NOT_FOUND, "Namespace default is not found."),
        ]

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = handler_call_details.method.rpartition("/")[2]

        async def call(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            if len(self.left) == 1 and method == "GetSystemInfo":
                return b""
            if self.left:
                await context.abort(*self.left.pop(0))
            return b""

        return grpc.unary_unary_rpc_method_handler(call)


async def test_a_server_that_starts() -> None:
    """It listens, is healthy, and knows its namespace, in this order: it serves after the last."""
    server = grpc.aio.server(handlers=[_Starting()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        assert [await dev.serves(port) for _ in range(3)] == [False, False, True]
    finally:
        await server.stop(None)
    assert not await dev.serves(port)


async def test_an_api_key_that_expires(gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What watches a worker's access ends once it was refused time after time, and not before."""
    monkeypatch.setattr(access, "PROBE_SECONDS", 0.1)
    client = await RawClient.connect(gate, api_key="right", tls=False)
    watching = asyncio.create_task(access.refused(client))
    await asyncio.wait({watching}, timeout=1)
    assert not watching.done()
    client.api_key = "old"
    error = await asyncio.wait_for(watching, 10)
    assert "API key has expired" in str(error)


async def test_a_result_that_the_server_refuses(
    server: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told, since the attempt is made again; a result that nobody wants is not."""
    raw = await RawClient.connect(server)
    torn = raw.get_async_activity_handle(task_token=b"torn")
    await Pulse(torn, lost=lambda: None).report("value")
    assert "refused the result of an attempt" in caplog.text
    caplog.clear()
    over = raw.get_async_activity_handle(workflow_id="none", run_id=None, activity_id="1")
    await Pulse(over, lost=lambda: None).report("value")
    assert not caplog.text


async def test_a_client_of_temporals(server: str, app_name: str) -> None:
    """A client that the user has is used as it is, but for the values on the wire."""
    raw = await RawClient.connect(server)
    app = AppDefinition(app_name, flows=[flows.waits])
    async with TemporalRuntime(client=raw).running(app), TemporalClient(client=raw) as client:
        handle = await client.start(app.target(flows.waits), id=f"{app_name}-r")
        await handle.signal("go", "went")
        assert await handle.result(timeout=20) == "went"
    with pytest.raises(ValueError, match="address and client are given"):
        TemporalClient(server, client=raw)


async def test_a_number_of_cached_workflows_that_is_none() -> None:
    """It is refused when the runtime is made."""
    with pytest.raises(ValueError, match="max_cached_workflows must be 0 or"):
        TemporalRuntime(max_cached_workflows=-1)


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (0, "max_payload must be an integer of 1 or more, not 0"),
        ("2 MB", "max_payload must be an integer of 1 or more, not '2 MB'"),
        (4_000_001, "max_payload 4000001 is more than a message of Temporal's carries"),
    ],
)
async def test_a_limit_of_values_that_is_none(limit: Any, told: str) -> None:
    """Runtime and client refuse it when they are made."""
    for make in (TemporalRuntime, TemporalClient):
        with pytest.raises(ValueError, match=told):
            make(max_payload=limit)


def test_another_version_of_temporalio(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, with both versions and the command."""
    versions.require_temporalio()
    monkeypatch.setattr(versions.metadata, "version", lambda _: "1.36.0")
    with pytest.raises(RuntimeError) as caught:
        versions.require_temporalio()
    assert str(caught.value) == (
        "iworkflow-temporal works with temporalio 1.35, not 1.36.0; "
        'run: pip install "temporalio==1.35.*"'
    )


async def test_two_workers_in_one_process(server: str, app_name: str) -> None:
    """Two apps of two workers call each other, and stop on their own."""
    one = AppDefinition(f"{app_name}-a", flows=[flows.attaches])
    two = AppDefinition(f"{app_name}-b", flows=[flows.waits])
    async with (
        TemporalRuntime(server).running(one),
        TemporalRuntime(server).running(two),
        TemporalClient(server) as client,
    ):
        name = f"{app_name}-w"
        handle = await client.start(
            one.target(flows.attaches), f"{two.app}/{name}", id=f"{app_name}-r"
        )
        async with asyncio.timeout(20):
            while not await client.list(id_prefix=name):
                await asyncio.sleep(0.05)
        await client.handle(name).signal("go", "across")
        assert await handle.result(timeout=20) == ["across"]
        assert (await client.handle(name).describe()).parent_id == handle.id
