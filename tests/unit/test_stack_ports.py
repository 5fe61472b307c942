import socket
from pathlib import Path

import pytest

from announce_stack import ports
from announce_stack.failure import StackError


def test_a_port_is_free_below_the_kernels_own_range_and_not_taken() -> None:
    lowest_of_the_kernel = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    chosen: list[int] = []
    for _ in range(20):
        chosen.append(ports.choose(chosen))
    assert len(set(chosen)) == 20
    assert all(ports.LOWEST <= port < lowest_of_the_kernel for port in chosen)


def test_a_port_with_a_listener_is_not_free() -> None:
    port = ports.choose([])
    with socket.create_server(("127.0.0.1", port)):
        assert not ports.is_free(port)
    assert ports.is_free(port)


def test_a_port_with_lingering_connections_is_free() -> None:
    port = ports.choose([])
    with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(("127.0.0.1", port)) as client:
        accepted, _ = server.accept()
        accepted.close()
        client.recv(1)
    assert ports.is_free(port)


def test_having_no_port_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda _port: False)
    with pytest.raises(StackError, match="no free port"):
        ports.choose([])
