"""What ingestd does with bodies that nobody should send."""

import asyncio
import json
import random

from announce.model.alert import Alert
from tests.ingest import KEY_ID, Producer
from tests.programs import Program

ALERT = {"title": "Disk full", "targets": [{"channel": "fcm", "token": "tok"}]}


def documents(chance: random.Random) -> bytes:
    """Make a body: random bytes, random JSON, or an alert with something changed."""
    match chance.randrange(4):
        case 0:
            return chance.randbytes(chance.randrange(80))
        case 1:
            return json.dumps(value(chance, 4)).encode()
        case 2:
            field = chance.choice([*Alert.model_fields, "x"])
            return json.dumps({"title": "t", field: value(chance, 3)}).encode()
        case _:
            raw = bytearray(json.dumps(ALERT | {"data": {"k": "v"}, "ttl_s": 60}).encode())
            for _ in range(chance.randrange(1, 4)):
                raw[chance.randrange(len(raw))] = chance.randrange(256)
            return bytes(raw)


def value(chance: random.Random, depth: int) -> object:
    """Make a JSON value."""
    leaves = [None, True, 0, -1, 2**70, 1e300, "", "x", "\0", "\ud800", "é" * 300, "2030-01-01T00:00:00Z", "fcm"]
    match chance.randrange(3) if depth else 2:
        case 0:
            return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
        case 1:
            names = chance.sample([*Alert.model_fields, "channel", "token", "chat_id", "\0", "x"], chance.randrange(4))
            return {name: value(chance, depth - 1) for name in names}
        case _:
            return chance.choice(leaves)


async def test_no_body_whatever_makes_it_fail(producer: Producer, program: Program) -> None:
    chance = random.Random(20_261_130)
    for _ in range(10):
        bodies = [documents(chance) for _ in range(100)]
        answers = await asyncio.gather(*(producer.post(body) for body in bodies))
        failed = [body for body, answer in zip(bodies, answers, strict=True) if answer.status >= 500]
        assert failed == []
        batch = await producer.post(b"\n".join(bodies), "/v1/alerts:batch")
        assert batch.status in (202, 207)
    assert "request failed" not in program.log.read_text()
    assert "alert failed" not in program.log.read_text()


async def test_secrets_and_addresses_are_not_logged(producer: Producer, program: Program) -> None:
    await producer.post({"title": "t", "targets": [{"channel": "fcm", "token": "device-token"}]})
    await producer.post({"title": "t", "targets": [{"channel": "fcm", "token": "device token"}]})
    await producer.post({"title": "t", "targets": [{"channel": "device-token"}]})
    text = program.log.read_text()
    assert "alert refused" in text
    assert "device" not in text
    assert producer.secret not in text
    assert KEY_ID not in text
