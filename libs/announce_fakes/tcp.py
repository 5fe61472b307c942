import asyncio
import socket
import struct

# SO_LINGER on, for zero seconds: closing the socket sends RST instead of FIN.
_LINGER_0 = struct.pack("ii", 1, 0)


def send_reset(transport: asyncio.WriteTransport) -> None:
    """Closes a connection with a RST; one that is closing already stays as it is."""
    if not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
        transport.abort()
