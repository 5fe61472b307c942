"""A TCP proxy that breaks what passes through it, between a client and any server."""

from announce_fakes.proxy.fault_proxy import FaultProxy as FaultProxy
from announce_fakes.proxy.weather import Counters as Counters
