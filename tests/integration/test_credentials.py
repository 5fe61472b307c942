"""FCM's access tokens, fetched from a real token endpoint over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from announce.model.channel import CredentialUnavailable
from announce.model.outcome import ChannelFault, CredentialRefused, Delivered, Outcome
from announce.model.reason import Reason
from announce.outbound.client import HttpClient, outbound_client
from announce.outbound.settings import OutboundSettings
from announce_fakes import FakeFcm
from deliverd_fcm.channel import FcmChannel
from deliverd_fcm.credentials import MAX_HOLD_OFF_S, RENEW_BEFORE_S, ServiceAccountTokens
from deliverd_fcm.service_account import ServiceAccount, read_service_account
from tests.unit.channel_cases import FCM, envelope

LIFETIME_S = 3599.0


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Sender:
    fcm: FakeFcm
    client: HttpClient
    account: ServiceAccount
    clock: Clock
    tokens: ServiceAccountTokens

    async def send(self) -> Outcome:
        credential = await self.tokens.current()
        channel = FcmChannel(self.fcm.url, self.account.project_id, 10)
        outcome = channel.classify(
            await self.client.post(channel.build_request(envelope(FCM.target), credential, False), 10)
        )
        if isinstance(outcome, CredentialRefused):
            self.tokens.refuse(credential)
        return outcome

    async def refusal(self) -> ChannelFault:
        with pytest.raises(CredentialUnavailable) as raised:
            await self.tokens.current()
        # Whatever the cause, it is the channel that waits.
        assert isinstance(raised.value.outcome, ChannelFault)
        assert raised.value.outcome.reason is Reason.CREDENTIALS
        return raised.value.outcome

    @property
    def fetches(self) -> int:
        return self.fcm.tokens.journal.count()


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fcm") / "account.json"


@pytest.fixture
async def sender(key_file: Path) -> AsyncIterator[Sender]:
    async with FakeFcm(credentials_file=key_file) as fcm, outbound_client(OutboundSettings()) as client:
        account, clock = read_service_account(key_file), Clock()
        yield Sender(fcm, client, account, clock, ServiceAccountTokens(account, client, clock))


async def test_fifty_sends_at_once_fetch_one_token(sender: Sender) -> None:
    outcomes = await asyncio.gather(*(sender.send() for _ in range(50)))
    assert all(isinstance(outcome, Delivered) for outcome in outcomes)
    assert (sender.fetches, sender.fcm.messages.journal.count("accepted")) == (1, 50)


async def test_a_token_is_renewed_before_its_end_and_nobody_waits_for_it(sender: Sender) -> None:
    first = await sender.tokens.current()
    sender.clock.now += LIFETIME_S - RENEW_BEFORE_S - 1
    assert await sender.tokens.current() == first
    # A fetch that had begun would arrive before these do.
    assert isinstance(await sender.send(), Delivered)
    assert sender.fetches == 1
    sender.clock.now += 1
    sender.fcm.control(token_delay_ms=100, token_times=1)
    assert await asyncio.gather(*(sender.tokens.current() for _ in range(50))) == [first] * 50
    await sender.fcm.tokens.journal.wait_for(2)
    # At the old one's end the renewal, still under way, is waited for.
    sender.clock.now += RENEW_BEFORE_S
    second = await sender.tokens.current()
    assert second != first
    assert isinstance(await sender.send(), Delivered)
    assert sender.fetches == 2


async def test_a_short_lived_token_is_renewed_at_half_its_life(sender: Sender) -> None:
    sender.fcm.control(token_lifetime=60)
    first = await sender.tokens.current()
    sender.clock.now += 29
    assert await sender.tokens.current() == first
    assert isinstance(await sender.send(), Delivered)
    assert isinstance(await sender.send(), Delivered)
    assert sender.fetches == 1
    sender.clock.now += 1
    assert await sender.tokens.current() == first
    await sender.fcm.tokens.journal.wait_for(2)


async def test_a_token_without_a_lifetime_serves_those_who_waited_for_it(sender: Sender) -> None:
    sender.fcm.control(token_lifetime=0)
    assert len(set(await asyncio.gather(*(sender.tokens.current() for _ in range(10))))) == 1
    assert sender.fetches == 1
    await sender.tokens.current()
    assert sender.fetches == 2


async def test_revoked_tokens_are_replaced_once_for_all(sender: Sender) -> None:
    assert isinstance(await sender.send(), Delivered)
    sender.fcm.control(revoke_tokens=True)
    outcomes = await asyncio.gather(*(sender.send() for _ in range(50)))
    assert all(isinstance(outcome, CredentialRefused) for outcome in outcomes)
    outcomes = await asyncio.gather(*(sender.send() for _ in range(50)))
    assert all(isinstance(outcome, Delivered) for outcome in outcomes)
    assert sender.fetches == 2


async def test_only_the_current_token_can_be_refused(sender: Sender) -> None:
    first = await sender.tokens.current()
    sender.tokens.refuse(first)
    second = await sender.tokens.current()
    sender.tokens.refuse(first)
    assert await sender.tokens.current() == second
    assert sender.fetches == 2


async def test_a_wrong_key_is_a_fault_of_ours(sender: Sender) -> None:
    stranger = replace(sender.account, key=rsa.generate_private_key(public_exponent=65537, key_size=2048))
    sender.tokens = ServiceAccountTokens(stranger, sender.client, sender.clock)
    outcome = await sender.refusal()
    assert outcome.detail == "OAuth token endpoint: HTTP 400: invalid_grant: Invalid JWT Signature."


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"token_status": 503}, "HTTP 503"),
        ({"token_status": 429}, "HTTP 429"),
        ({"token_reset": True}, "connection reset"),
        ({"token_html": True}, "HTTP 200, but not the provider's answer"),
        ({"token_bytes": 10_000_000}, "answer longer than 65536 bytes"),
    ],
)
async def test_an_endpoint_in_trouble_is_left_alone_and_then_asked_again(
    sender: Sender, script: dict[str, object], said: str
) -> None:
    sender.fcm.control(**script, token_times=1)
    outcome = await sender.refusal()
    assert outcome.detail.startswith(f"OAuth token endpoint: {said}")
    # Whoever asks now hears of that failure, without another call.
    assert await sender.refusal() == outcome
    assert sender.fetches == 1
    sender.clock.now += 1
    assert isinstance(await sender.send(), Delivered)
    assert sender.fetches == 2


async def test_an_endpoint_that_is_away(sender: Sender) -> None:
    await sender.fcm.stop()
    assert (await sender.refusal()).detail == "OAuth token endpoint: connection refused"


@pytest.mark.parametrize(("asked_s", "waited_s"), [(120, 120.0), (80_000, MAX_HOLD_OFF_S)])
async def test_the_endpoint_s_retry_after_is_obeyed_within_bounds(
    sender: Sender, asked_s: int, waited_s: float
) -> None:
    sender.fcm.control(token_status=503, token_retry_after=asked_s, token_times=1)
    await sender.refusal()
    sender.clock.now += waited_s - 1
    await sender.refusal()
    assert sender.fetches == 1
    sender.clock.now += 1
    await sender.tokens.current()


async def test_a_renewal_that_fails_leaves_the_token_in_use_until_its_end(sender: Sender) -> None:
    first = await sender.tokens.current()
    sender.clock.now += LIFETIME_S - RENEW_BEFORE_S
    sender.fcm.control(token_status=503)
    assert await sender.tokens.current() == first
    await sender.fcm.tokens.journal.wait_for(2)
    for _ in range(5):
        assert isinstance(await sender.send(), Delivered)
    assert sender.fetches == 2
    sender.clock.now += RENEW_BEFORE_S
    assert (await sender.refusal()).detail.startswith("OAuth token endpoint: HTTP 503")


async def test_one_who_gives_up_waiting_doesn_t_end_the_fetch_for_the_others(sender: Sender) -> None:
    sender.fcm.control(token_hang=True)
    waiting = [asyncio.create_task(sender.tokens.current()) for _ in range(3)]
    await sender.fcm.tokens.journal.wait_for(1)
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    sender.fcm.control(reset_rules=True)
    assert await waiting[1] == await waiting[2]
    assert sender.fetches == 1
