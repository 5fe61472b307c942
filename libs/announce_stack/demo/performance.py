"""The demo's acts: subscribe, send, wait for the end of everything, and look what has become of it."""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout
from nats.errors import Error as NatsError
from pydantic import SecretStr

from announce.store.database import DatabaseUnavailable, database
from announce.store.settings import StoreSettings
from announce.store.subscriptions import save_subscriptions
from announce_stack.demo.history import History
from announce_stack.demo.producers import HttpProducer, NatsProducer, nats_producer
from announce_stack.demo.providers import Providers
from announce_stack.demo.scenario import FAILURES, SUBSCRIPTIONS, scenario
from announce_stack.demo.sending import Answer, Call, Delivery, How, Result, Sending, Story
from announce_stack.failure import StackError
from announce_stack.report import Report, timed

HTTP_TIMEOUT = ClientTimeout(total=15)
# Nothing in the scenario takes longer than a second; a machine may be busy.
END_TIMEOUT_S = 20.0


class Cast(NamedTuple):
    """All that take part."""

    history: History
    providers: Providers
    http: HttpProducer
    nats: NatsProducer


async def perform(environment: Mapping[str, str], report: Report) -> list[Result]:
    """Sends everything in the scenario, and returns what became of it once all has come to its end.

    Args:
        environment: what `scripts/stack env` says of a stack with the fakes.
        report: told how far it has come.

    Raises:
        StackError: a part of the stack went away.
    """
    try:
        async with _cast(environment) as cast:
            company = environment["BA_DEMO_COMPANY"]
            report(f"company {company} has a key and {len(SUBSCRIPTIONS)} subscriptions")
            return await _play(cast, report)
    except (ClientError, NatsError, DatabaseUnavailable, OSError) as error:
        reason = str(error) or type(error).__name__
        raise StackError(f"a part of the stack went away while the demo ran: {reason}") from error


async def _play(cast: Cast, report: Report) -> list[Result]:
    for rule in FAILURES:
        await cast.providers.script_fcm(rule)
    sendings = scenario(f"demo-{secrets.token_hex(4)}", datetime.now(UTC))
    number = sum(len(sending.alerts) for sending in sendings)
    with timed(report, f"sent {number} alerts, each when the one before had come to its end"):
        acts = [await _act(cast, sending) for sending in sendings]
    # Only now: something that should have been dropped had the time to be sent after all.
    deliveries = await cast.history.deliveries(frozenset[str]().union(*(sending.ids for sending in sendings)))
    calls = await cast.providers.calls()
    return [
        Result(sending, answer, _story(sending, deliveries, calls, ended=ended))
        for sending, (answer, ended) in zip(sendings, acts, strict=True)
    ]


async def _act(cast: Cast, sending: Sending) -> tuple[Answer, bool]:
    """Sends, and waits for the end; returns the answer, and whether the end came."""
    producer = cast.http if sending.how is How.HTTP else cast.nats
    answer = await producer.send(sending)
    return answer, await cast.history.wait(answer.accepted, END_TIMEOUT_S)


def _story(sending: Sending, deliveries: Sequence[Delivery], calls: Sequence[Call], *, ended: bool) -> Story:
    own = [delivery for delivery in deliveries if delivery.alert_id in sending.ids]
    ids = {delivery.delivery_id for delivery in own}
    return Story(own, [call for call in calls if call.delivery_id in ids], ended)


@asynccontextmanager
async def _cast(environment: Mapping[str, str]) -> AsyncIterator[Cast]:
    company = environment["BA_DEMO_COMPANY"]
    async with (
        database(StoreSettings(pg_dsn=SecretStr(environment["BA_PG_DSN"]))) as opened,
        ClientSession(timeout=HTTP_TIMEOUT) as session,
        nats_producer(environment) as producer,
    ):
        await save_subscriptions(opened, company, SUBSCRIPTIONS)
        yield Cast(
            History(opened, company), Providers(session, environment), HttpProducer(session, environment), producer
        )
