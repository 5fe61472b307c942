import asyncio
import signal


def stop_signal() -> asyncio.Event:
    """An event that SIGTERM or SIGINT sets, from now on."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
