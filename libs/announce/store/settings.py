from pathlib import Path

from pydantic import Field, SecretStr

from announce.runtime.settings import Settings


class StoreSettings(Settings):
    """How a service reaches TimescaleDB."""

    pg_dsn: SecretStr = Field(
        SecretStr("postgresql://announce@127.0.0.1:5432/announce"),
        description="postgresql://user:password@host:port/db.",
    )
    pg_pool_size: int = Field(8, ge=2, le=100, description="Most connections that one process opens.")


class SecretSettings(Settings):
    """The keys that secrets in the database are encrypted with."""

    secret_keys: SecretStr = Field(
        SecretStr(""),
        description="Fernet keys, separated by commas: the first encrypts, all decrypt. Make one with "
        '`python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"`.',
    )


class MigrationSettings(StoreSettings):
    """What `python -m announce.store.migrate` reads."""

    migrations_dir: Path = Field(
        Path(__file__).resolve().parents[3] / "migrations", description="Folder of NNN_name.up.sql and .down.sql."
    )
