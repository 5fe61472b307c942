import socket
import subprocess
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path

Check = Callable[[], bool]
"""Whether a server answers now. Never raises, and takes about a second at most."""

LOOPBACK = "127.0.0.1"
TIMEOUT_S = 1.0
HTTP_OK = 200


def accepts(*ports: int) -> Check:
    """Ready when each port accepts connections."""

    def check() -> bool:
        try:
            for port in ports:
                socket.create_connection((LOOPBACK, port), TIMEOUT_S).close()
        except OSError:
            return False
        return True

    return check


def answers(port: int, path: str) -> Check:
    """Ready when GET `path` is answered with 200."""

    def check() -> bool:
        connection = HTTPConnection(LOOPBACK, port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == HTTP_OK
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    return check


def takes_queries(pg_isready: Path, port: int, role: str) -> Check:
    """Ready when Postgres takes connections: its port is open before that, while it recovers."""
    argv = [str(pg_isready), "-q", "-h", LOOPBACK, "-p", str(port), "-t", "1", "-U", role]

    def check() -> bool:
        return subprocess.run(argv, check=False).returncode == 0

    return check
