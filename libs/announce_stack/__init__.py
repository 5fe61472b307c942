"""The whole system on one machine: real servers, no Docker, no root.

`scripts/stack` is the command line. A program (a test session, say) that needs only some servers starts them itself:

    folder = Path(...)                      # an empty one, or that of an earlier run
    supervisor = Supervisor(folder)
    database = postgres.server(folder, ports.choose([]), password)
    supervisor.start([database])
    supervisor.wait_ready([database])
    ...                                     # postgres.dsn(port, password)
    supervisor.stop(["postgres"])

`Supervisor` is in `announce_stack.supervisor`; `postgres`, `nats`, `clickhouse` and `fakes` each make a `Server`, a
value that says how to run one process and when it is ready.
"""
