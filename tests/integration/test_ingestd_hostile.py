"""What ingestd does with bodies that nobody should send."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from announce.model.payload import storable_payload
from announce.store.database import Database
from tests.alerts import BODIES
from tests.ingest import KEY_ID, Producer
from tests.programs import Program


# The examples share one process: what it has taken from one must not make it fail at another.
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies=st.lists(BODIES, min_size=1, max_size=20))
async def test_no_body_whatever_makes_it_fail(producer: Producer, program: Program, bodies: list[bytes]) -> None:
    answers = await asyncio.gather(*map(producer.post, bodies))
    assert {answer.status for answer in answers} <= {202, 400, 403, 409, 422}
    batch = await producer.post(b"\n".join(bodies), "/v1/alerts:batch")
    assert batch.status in (202, 207, 400)
    assert "request failed" not in program.log.read_text()
    assert "alert failed" not in program.log.read_text()


NUMBERS = st.builds(
    lambda digits, exponent: f'{{"n":{digits}e{exponent}}}'.encode(),
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?", fullmatch=True),
    st.integers(-200_000, 200_000) | st.integers(-400, 400),
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies=st.lists(BODIES | NUMBERS, min_size=1, max_size=20))
async def test_any_body_can_be_kept_as_a_dead_letter(store: Database, bodies: list[bytes]) -> None:
    async with store.connection() as connection:
        for body in bodies:
            assert await connection.fetchval("SELECT jsonb_typeof($1::jsonb)", storable_payload(body)) == "object"


async def test_secrets_and_addresses_are_not_logged(producer: Producer, program: Program) -> None:
    await producer.post({"title": "t", "targets": [{"channel": "fcm", "token": "device-token"}]})
    await producer.post({"title": "t", "targets": [{"channel": "fcm", "token": "device token"}]})
    await producer.post({"title": "t", "targets": [{"channel": "device-token"}]})
    text = program.log.read_text()
    assert "alert refused" in text
    assert "device" not in text
    assert producer.secret not in text
    assert KEY_ID not in text
