from dataclasses import dataclass

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class BotToken:
    """The source of a credential that never changes: nothing but new settings replaces it."""

    token: SecretStr

    async def current(self) -> str:
        """Return the token."""
        return self.token.get_secret_value()

    def refuse(self, credential: str) -> None:
        """Do nothing: there is no other one."""
