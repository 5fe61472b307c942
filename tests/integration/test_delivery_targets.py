"""Targets that are gone, that have become others, or that can't be sent what we wrote."""

import msgspec

from announce.model.alert import Severity
from announce.store.subscriptions import Subscription, matching_subscriptions, save_subscriptions
from tests.eventually import eventually
from tests.ingest import create_producer
from tests.integration.rig import Rig, encoded


async def addresses(rig: Rig) -> list[str]:
    found = await matching_subscriptions(rig.store, "demo", Severity.CRITICAL, [], 0, 100)
    return sorted(each.address for each in found)


async def subscribe(rig: Rig, *chats: int) -> None:
    await create_producer(rig.store)
    await save_subscriptions(rig.store, "demo", [Subscription("telegram", str(chat)) for chat in chats])


def of_demo(*chats: int) -> list[bytes]:
    return [raw.replace(b'"acme"', b'"demo"') for raw in encoded(*chats)]


async def test_a_target_that_is_gone_loses_its_subscription_with_the_reason(rig: Rig) -> None:
    await subscribe(rig, 1, 2)
    rig.provider.control(target="1", status=403, error_code="Forbidden: bot was blocked by the user")
    async with rig.service():
        await rig.publish(*of_demo(1, 2))
        await eventually(rig.letters, [("alert-1", 1, "target_gone")])
        await eventually(rig.left, 0)
    assert await addresses(rig) == ["2"]
    (row,) = await rig.rows("SELECT address, disabled_reason FROM subscriptions WHERE disabled_at IS NOT NULL")
    assert row == ("1", "target_gone")


async def test_a_chat_that_has_become_another_is_followed_once_and_remembered(rig: Rig) -> None:
    await subscribe(rig, -5)
    rig.provider.control(target="-5", migrate_to_chat_id=-1005)
    async with rig.service():
        await rig.publish(*of_demo(-5))
        await eventually(rig.attempts, [("alert--5", 1, "failed", "target_moved"), ("alert--5", 2, "sent", None)])
        await eventually(rig.left, 0)
    assert await addresses(rig) == ["-1005"]
    assert await rig.rows("SELECT target FROM deliveries ORDER BY attempts") == [("-5",), ("-1005",)]
    # Another process, told of the old chat, as by an alert that names it: the database remembers.
    async with rig.service() as service:
        await rig.publish(*(raw.replace(b"alert--5", b"alert--6") for raw in of_demo(-5)))
        await eventually(rig.left, 0)
        assert await service.metric("ba_delivery_attempts_total") == 1


async def test_a_chat_whose_move_is_known_and_that_moves_again_is_followed(rig: Rig) -> None:
    rig.provider.control(target="-5", migrate_to_chat_id=-1005)
    async with rig.service():
        await rig.publish(*encoded(-5))
        await eventually(rig.left, 0)
        rig.provider.control(target="-1005", migrate_to_chat_id=-1006)
        await rig.publish(*(raw.replace(b"alert--5", b"alert--6") for raw in encoded(-5)))
        await eventually(rig.left, 0)
    assert await rig.letters() == []
    assert (await rig.attempts())[2:] == [("alert--6", 1, "failed", "target_moved"), ("alert--6", 2, "sent", None)]


async def test_a_chat_that_moves_on_and_on_is_followed_once(rig: Rig) -> None:
    rig.provider.control(target="-5", migrate_to_chat_id=-1005)
    rig.provider.control(target="-1005", migrate_to_chat_id=-1006)
    async with rig.service():
        await rig.publish(*encoded(-5))
        await eventually(rig.letters, [("alert--5", 2, "target_moved")])


async def test_a_text_whose_markup_cannot_be_read_goes_out_once_more_as_plain_text(rig: Rig) -> None:
    rig.provider.control(status=400, error_code="Bad Request: can't parse entities: unsupported start tag", times=1)
    async with rig.service():
        await rig.publish(*encoded(1))
        await eventually(rig.attempts, [("alert-1", 1, "failed", "invalid_request"), ("alert-1", 2, "sent", None)])
    first, second = (msgspec.json.decode(call["body"]) for call in rig.provider.received())
    assert first["parse_mode"] == "HTML"
    assert "parse_mode" not in second
    assert second["text"] == "Disk full\n\ndb-1"


async def test_a_text_that_is_refused_as_plain_text_too_is_a_dead_letter(rig: Rig) -> None:
    rig.provider.control(status=400, error_code="Bad Request: can't parse entities: unsupported start tag")
    async with rig.service():
        await rig.publish(*encoded(1))
        await eventually(rig.letters, [("alert-1", 2, "invalid_request")])
