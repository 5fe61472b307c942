"""What an operator sees of a running service: logs, metrics, health."""
