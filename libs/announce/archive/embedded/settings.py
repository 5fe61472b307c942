from pydantic import Field, SecretStr

from announce.runtime.settings import Settings


class CredentialSettings(Settings):
    """Who may use the embedded server. Clients that give no name are the user `default`, as in ClickHouse."""

    clickhouse_embedded_user: str = Field("default", description="The embedded ClickHouse server's one user.")
    clickhouse_embedded_password: SecretStr = Field(
        SecretStr(""), description="That user's password; by default there is none, as on a fresh ClickHouse server."
    )
