"""Postgres refuses to run as root, so root starts it as somebody else."""

import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine that a server runs as."""

    uid: int
    gid: int

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command that runs `argv` as this user.

        The process keeps root's right to pass folders that only root may enter, since the stack's folder
        and the cache often lie below root's own home.
        """
        identity = [f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        keep = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--securebits=+no_setuid_fixup"]
        return ("setpriv", *identity, *keep, *argv)


def unprivileged() -> Account | None:
    """The user that takes root's place: `postgres` when there is one, else `nobody`; None when not root."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        entry = pwd.getpwnam("nobody")
    return Account(entry.pw_uid, entry.pw_gid)
