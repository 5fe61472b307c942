import asyncio
import errno
import gzip
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from announce.model.channel import HttpReply, OutboundRequest, Reply, TransportFailure, TransportFault
from announce.outbound.client import HttpClient, outbound_client
from announce.outbound.failures import failure_of
from announce.outbound.settings import OutboundSettings
from tests.unit.outbound.raw_http import OK, Behaviour, raw_server, resets, says, says_and_closes, stays_silent

TOKEN = "12345:top-secret"
PATH = f"/bot{TOKEN}/sendMessage"
LIMIT = 4096

CONNECTION_FAILED = TransportFault.CONNECTION_FAILED
UNREADABLE = TransportFault.ANSWER_UNREADABLE


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    async with outbound_client(OutboundSettings(max_answer_bytes=LIMIT)) as opened:
        yield opened


def call(base: str, body: bytes = b"{}") -> OutboundRequest:
    return OutboundRequest(f"{base}{PATH}", {"Content-Type": "application/json", "traceparent": "00-1-2-01"}, body)


def answer(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def chunked(*chunks: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(
        b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks
    )


def holds_no_secret(reply: Reply) -> bool:
    return TOKEN not in repr(reply) and "127.0.0.1" not in repr(reply)


async def test_it_sends_what_it_was_given_and_reads_the_whole_answer(client: HttpClient) -> None:
    said = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nX-Odd: Yes\r\nContent-Length: 5\r\n\r\nhello"
    async with raw_server(says(said)) as server:
        reply = await client.post(call(server.url, b'{"a":1}'), 5)
    assert reply == HttpReply(429, {"retry-after": "7", "x-odd": "Yes", "content-length": "5"}, b"hello")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert body == b'{"a":1}'
    assert sorted(head.decode().split("\r\n")) == sorted(
        [
            f"POST {PATH} HTTP/1.1",
            f"Host: 127.0.0.1:{server.port}",
            "Content-Type: application/json",
            "traceparent: 00-1-2-01",
            "Content-Length: 7",
        ]
    )


async def test_a_chunked_answer_and_one_without_a_body_are_read(client: HttpClient) -> None:
    async with raw_server(says(chunked(b"ab", b"cd", b""))) as server:
        reply = await client.post(call(server.url), 5)
    assert isinstance(reply, HttpReply)
    assert reply.body == b"abcd"
    async with raw_server(says(b"HTTP/1.1 204 No Content\r\n\r\n")) as server:
        assert await client.post(call(server.url), 5) == HttpReply(204)


async def test_connections_are_kept_and_there_are_as_many_as_calls_under_way(client: HttpClient) -> None:
    arrived = asyncio.Semaphore(0)
    go = asyncio.Event()

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.release()
        await go.wait()
        writer.write(OK)

    async with raw_server(behave) as server:
        calls = [asyncio.create_task(client.post(call(server.url), 10)) for _ in range(150)]
        for _ in calls:
            await arrived.acquire()
        go.set()
        assert all(isinstance(reply, HttpReply) for reply in await asyncio.gather(*calls))
        assert server.connections == 150
        for _ in range(20):
            await client.post(call(server.url), 10)
        assert server.connections == 150


async def test_a_redirect_is_an_answer_and_not_followed(client: HttpClient) -> None:
    async with raw_server(says(OK)) as other:
        moved = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {other.url}/\r\nContent-Length: 0\r\n\r\n"
        async with raw_server(says(moved.encode())) as server:
            reply = await client.post(call(server.url), 5)
    assert isinstance(reply, HttpReply)
    assert reply.status == 307
    assert other.requests == []


async def test_cookies_are_not_kept(client: HttpClient) -> None:
    async with raw_server(says(answer(b"ok", "Set-Cookie: session=1; Path=/"))) as server:
        await client.post(call(server.url), 5)
        await client.post(call(server.url), 5)
    assert b"cookie" not in server.requests[1].lower()


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(says(OK)) as proxy, raw_server(says(OK)) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        async with outbound_client(OutboundSettings()) as client:
            await client.post(call(server.url), 5)
    assert (proxy.connections, len(server.requests)) == (0, 1)


async def test_an_answer_is_not_decompressed(client: HttpClient) -> None:
    bomb = gzip.compress(bytes(1 << 20))
    assert len(bomb) < LIMIT
    async with raw_server(says(answer(bomb, "Content-Encoding: gzip"))) as server:
        reply = await client.post(call(server.url), 5)
    assert isinstance(reply, HttpReply)
    assert reply.body == bomb


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT, LIMIT + 1])
async def test_the_limit_on_answers_is_exact(client: HttpClient, size: int) -> None:
    async with raw_server(says(answer(b"x" * size))) as server:
        reply = await client.post(call(server.url), 5)
    if size <= LIMIT:
        assert isinstance(reply, HttpReply)
        assert len(reply.body) == size
    else:
        assert reply == TransportFailure(TransportFault.ANSWER_TOO_LARGE, "answer longer than 4096 bytes")


async def test_an_answer_without_end_is_cut_and_its_connection_closed(client: HttpClient) -> None:
    sent = 0

    async def pours(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(chunked())
        while True:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()
            sent += 0x10000

    async with raw_server(pours) as server:
        reply = await client.post(call(server.url), 30)
        await asyncio.wait_for(server.closed.wait(), 10)
    assert isinstance(reply, TransportFailure)
    assert reply.fault is TransportFault.ANSWER_TOO_LARGE
    # What the sockets' buffers take is sent, and no more.
    assert sent < 32 << 20


async def drips(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _step in range(1000):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("behave", [stays_silent, drips])
async def test_the_time_limit_bounds_the_whole_answer(client: HttpClient, behave: Behaviour) -> None:
    async with raw_server(behave) as server:
        began = asyncio.get_running_loop().time()
        reply = await client.post(call(server.url), 0.3)
        took = asyncio.get_running_loop().time() - began
        await asyncio.wait_for(server.closed.wait(), 10)
    assert reply == TransportFailure(TransportFault.TIMEOUT, "no answer within 0.3 s")
    assert took < 3


@pytest.mark.parametrize(
    ("behave", "fault", "detail"),
    [
        (resets, CONNECTION_FAILED, "connection reset"),
        (says_and_closes(b""), CONNECTION_FAILED, "connection closed without an answer"),
        (says_and_closes(b"HTTP/1.1 200 OK\r\nContent-"), CONNECTION_FAILED, "connection closed without an answer"),
        (says_and_closes(answer(b"12345")[:-1]), CONNECTION_FAILED, "connection closed within the answer"),
        (says_and_closes(chunked(b"12345")), CONNECTION_FAILED, "connection closed within the answer"),
        (says(b"SSH-2.0-OpenSSH_9.2\r\n"), UNREADABLE, "answer is not HTTP"),
        (says(answer(b"", "X-Long: " + "x" * 20_000)), UNREADABLE, "answer is not HTTP"),
        (says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), UNREADABLE, "answer is not HTTP"),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n"), UNREADABLE, "answer is not HTTP"),
    ],
    ids=["reset", "closed", "cut-head", "cut-body", "cut-chunks", "ssh", "long-header", "bad-chunk", "bad-length"],
)
async def test_each_trouble_has_its_own_words(
    client: HttpClient, behave: Behaviour, fault: TransportFault, detail: str
) -> None:
    async with raw_server(behave) as server:
        reply = await client.post(call(server.url), 10)
    assert reply == TransportFailure(fault, detail)
    assert holds_no_secret(reply)


async def test_a_closed_port_and_an_unknown_name(client: HttpClient) -> None:
    async with raw_server(says(OK)) as server:
        url = server.url
    assert await client.post(call(url), 10) == TransportFailure(CONNECTION_FAILED, "connection refused")
    reply = await client.post(call("http://nowhere.invalid"), 10)
    assert reply == TransportFailure(CONNECTION_FAILED, "name not resolved")


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder = tmp_path_factory.mktemp("tls")
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]),
    )
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, formats = serialization.Encoding.PEM, serialization.PrivateFormat
    (folder / "key").write_bytes(key.private_bytes(pem, formats.PKCS8, serialization.NoEncryption()))
    (folder / "certificate").write_bytes(certificate.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(folder, "certificate"), Path(folder, "key"))
    return context


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    client: HttpClient, self_signed: ssl.SSLContext
) -> None:
    async with raw_server(says(OK), self_signed) as server:
        reply = await client.post(call(f"https://localhost:{server.port}"), 10)
    assert reply == TransportFailure(CONNECTION_FAILED, "TLS: certificate verify failed")
    assert server.requests == []


async def test_a_server_without_tls_is_no_https_server(client: HttpClient) -> None:
    def speaks_first(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(speaks_first, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        reply = await client.post(call(f"https://localhost:{port}"), 10)
    assert reply == TransportFailure(CONNECTION_FAILED, "TLS: handshake failed")


async def test_a_cancelled_call_is_cancelled(client: HttpClient) -> None:
    async with raw_server(stays_silent) as server:
        under_way = asyncio.create_task(client.post(call(server.url), 30))
        await asyncio.wait_for(server.arrived.wait(), 10)
        under_way.cancel()
        with pytest.raises(asyncio.CancelledError):
            await under_way
        await asyncio.wait_for(server.closed.wait(), 10)


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "too many open files"),
        (OSError(errno.EHOSTUNREACH, TOKEN), "host unreachable"),
        (OSError(TOKEN), "connection failed"),
        (ConnectionResetError(TOKEN), "connection reset"),
        (aiohttp.ClientError(TOKEN), "connection failed"),
        (ssl.SSLError(TOKEN), "TLS: connection failed"),
    ],
)
def test_what_a_test_server_can_t_bring_about(error: OSError | aiohttp.ClientError, detail: str) -> None:
    assert failure_of(error) == TransportFailure(CONNECTION_FAILED, detail)
