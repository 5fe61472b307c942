"""Messages that are no envelopes, one after each good one."""

import base64
from collections import Counter

import pytest

from announce.model.envelope import encode_envelope
from tests.faults.rig import Rig

pytestmark = pytest.mark.timeout(180)

NUMBER = 1000
NAMES = [f"good_{number}" for number in range(NUMBER)]


def poison(rig: Rig, number: int) -> bytes:
    """One of many kinds of bytes, each of which a careless program would choke on."""
    whole = encode_envelope(rig.envelope(f"bad_{number}"))
    kinds = [
        b"",
        b"%d" % number,
        b"junk \0\xff\xfe %d" % number,
        b"{}",
        b"null",
        b"[" * 50_000,
        b'{"v":1,"title":"\xc3\x28 %d"}' % number,
        b"x" * 100_000 + b"%d" % number,
        whole[: len(whole) // 2],
        whole + b"}",
        whole.replace(b'"v":1', b'"v":2'),
        whole.replace(b'"token"', b'"tokens"'),
        whole.replace(b'"alert_id":"bad', b'"alert_id":"\\u0000bad'),
        whole.replace(b'"acme"', b'"' + b"x" * 5000 + b'"'),
        whole.replace(b'"created_at":"2', b'"created_at":"x'),
        whole.replace(b'"delivery_id":"', b'"delivery_id":"x'),
        whole.decode().encode("utf-16"),
        b'{"raw_base64":"%s"}' % base64.b64encode(whole),
    ]
    return kinds[number % len(kinds)]


async def test_good_ones_wait_for_no_poison_and_poison_is_kept_byte_for_byte(fcm: Rig) -> None:
    envelopes = [fcm.envelope(name) for name in NAMES]
    bad = [poison(fcm, number) for number in range(NUMBER)]
    payloads: dict[str, bytes] = {}
    for number, envelope in enumerate(envelopes):
        payloads[f"bad-{number}"] = bad[number]
        payloads[f"good-{number}"] = encode_envelope(envelope)
    fcm.accepted.update({envelope.delivery_id: envelope.alert_id for envelope in envelopes})
    await fcm.publish_raw(payloads)
    async with fcm.service(BA_DELIVERD_MAX_IN_FLIGHT="20000") as service:
        # Poison is kept, and so is over, when Postgres has it. Every good one is sent before that.
        fcm.postgres.stall()
        await fcm.provider.wait_for(NUMBER, of="ids", timeout_s=30)
        assert await fcm.left() == 2 * NUMBER
        assert await fcm.rows("SELECT FROM deliveries_dlq") == []
        await fcm.postgres.resume()
        assert (await fcm.empty()).sent == NUMBER
        await fcm.settled_once(service)
        assert await service.metric("ba_delivery_rows_refused_total") == 0
    assert fcm.sends() == dict.fromkeys(NAMES, 1)
    kept = await fcm.rows("SELECT payload, channel, company_id, reason, original_subject FROM deliveries_dlq")
    assert Counter(base64.b64decode(payload["raw_base64"]) for payload, *_ in kept) == Counter(bad)
    assert {tuple(rest) for _, *rest in kept} == {("fcm", "acme", "undecodable", "ba.deliver.fcm.acme")}
