from datetime import UTC, datetime
from pathlib import Path

import jwt
import pytest

from announce_stack import nats, state
from announce_stack.failure import StackError
from announce_stack.state import Plan, State


def test_a_state_comes_back_as_it_was_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    remembered = State(ports={"nats": 20001, "deliverd_fcm:2": 20002}, plan=Plan(names=("nats",), overrides={"A": "b"}))
    remembered.save(tmp_path)
    assert state.load(tmp_path) == remembered
    assert (tmp_path / "state.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_folder_without_a_stack_has_no_state(tmp_path: Path) -> None:
    assert state.load(tmp_path) is None


def test_a_failed_write_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = State(ports={"nats": 20001})
    old.save(tmp_path)

    def full(_descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        State(ports={"nats": 1}).save(tmp_path)
    assert state.load(tmp_path) == old


def test_two_stacks_have_no_secret_in_common() -> None:
    one, other = State().secrets, State().secrets
    assert all(getattr(one, name) != getattr(other, name) for name in one.__struct_fields__)


def test_every_user_of_the_nats_configuration_gets_a_password_that_is_no_number() -> None:
    passwords = State().secrets.nats
    assert {"BA_NATS_ADMIN_PASSWORD", "BA_NATS_INGESTD_PASSWORD", "BA_NATS_PRODUCER_DEMO_PASSWORD"} <= passwords.keys()
    assert all(word[0].isalpha() for word in passwords.values())
    assert nats.url(4222, "producer-demo", passwords).startswith(
        f"nats://producer-demo:{passwords['BA_NATS_PRODUCER_DEMO_PASSWORD']}@"
    )


def test_known_passwords_stay_when_a_user_is_added() -> None:
    known = {"BA_NATS_ADMIN_PASSWORD": "kept"}
    passwords = nats.fresh_passwords(known)
    assert passwords["BA_NATS_ADMIN_PASSWORD"] == "kept"
    assert len(passwords) > 1


def test_the_admins_token_is_a_jwt_for_a_year() -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    secret = "s" * 64
    token = state.admin_token("admin", secret, now)
    claims = jwt.decode(token, secret, ["HS256"], audience="broad-announce", issuer="broad-announce")
    assert (claims["sub"], claims["role"]) == ("admin", "admin")
    assert claims["iat"] == now.timestamp()
    assert claims["exp"] - claims["iat"] == 365 * 86400


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"ports": {"nats": "many"}}')
    with pytest.raises(StackError, match=r"state\.json is damaged: .*ports"):
        state.load(tmp_path)
