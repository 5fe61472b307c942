from pathlib import Path

from announce_stack import layout
from announce_stack.readiness import LOOPBACK, answers
from announce_stack.server import Server

NAME = "clickhouse"
USER = "announce"
DATABASE = "ba_archive"


def server(folder: Path, port: int, password: str) -> Server:
    """The embedded ClickHouse server with its data in `folder`/clickhouse.

    Args:
        folder: an existing folder.
        port: where it listens, on loopback only.
        password: of the user `announce`.
    """
    path = str(folder / NAME)
    return Server(
        name=NAME,
        argv=layout.module("announce.archive.embedded", "--path", path, "--port", str(port)),
        folder=folder,
        ready=answers(port, "/ping"),
        ports=(port,),
        environment={"BA_CLICKHOUSE_EMBEDDED_USER": USER, "BA_CLICKHOUSE_EMBEDDED_PASSWORD": password},
    )


def dsn(port: int, password: str) -> str:
    """The URL of the archive's database."""
    return f"http://{USER}:{password}@{LOOPBACK}:{port}/{DATABASE}"
