"""Calls to providers. The HTTP library is known here and nowhere else."""
