"""The providers and receivers that broad-announce speaks to, as real servers that a test or a demo scripts.

Each fake listens on a socket and speaks its provider's contract. `/control` scripts faults while it runs,
`/received` shows what arrived. All of them run as one program (`python -m announce_fakes`), and each in process:

    async with FakeFcm(credentials_file=path) as fcm:
        fcm.control(status=503, retry_after=2, times=3)
        ...
        await fcm.wait_for(4)
        assert fcm.summary()["accepted"] == 1

`FaultProxy` stands between a client and any TCP server, and breaks what passes.
"""

from announce_fakes.fcm import FakeFcm as FakeFcm
from announce_fakes.proxy import FaultProxy as FaultProxy
from announce_fakes.script import ScriptError as ScriptError
from announce_fakes.telegram import FakeTelegram as FakeTelegram
from announce_fakes.webhook import FakeWebhook as FakeWebhook
