"""ClickHouse's engine in one process, behind ClickHouse's HTTP interface: a server for machines that have none."""
