"""How a service starts, runs and stops."""
