"""`python -m announce.store.migrate up|down|status`: the schema's steps, up and down."""

import argparse
import asyncio
import hashlib
import logging
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from announce.observe.logging import configure, event
from announce.runtime.settings import load as load_settings
from announce.store.database import Database, DatabaseConnection, database
from announce.store.settings import MigrationSettings
from announce.store.sql import load

log = logging.getLogger(__name__)

SQL: Final = load("migrations")
_FILE: Final = re.compile(r"(\d{3})_(\w+)\.up\.sql")


class MigrationRefused(Exception):  # noqa: N818 - it says what is the case
    """The database and the files don't fit together; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    up: str
    down: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the step up, in hex."""
        return hashlib.sha256(self.up.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.version:03}_{self.name}"


def read_migrations(folder: Path) -> list[Migration]:
    """Read every step, in order.

    Raises:
        MigrationRefused: a step has no way down, or two have one number.
    """
    steps: dict[int, Migration] = {}
    for path in sorted(folder.glob("*.up.sql")):
        match = _FILE.fullmatch(path.name)
        down = path.with_name(path.name.replace(".up.", ".down."))
        if match is None or not down.is_file():
            raise MigrationRefused(f"{path.name}: must be named NNN_name.up.sql and have its .down.sql beside it")
        version, name = int(match[1]), match[2]
        if version in steps:
            raise MigrationRefused(f"{path.name}: {steps[version]} has the same number")
        steps[version] = Migration(version, name, path.read_text("utf-8"), down.read_text("utf-8"))
    return list(steps.values())


class Migrator:
    """Moves one database along the steps. Runs of several migrators take turns."""

    def __init__(self, database: Database, migrations: Sequence[Migration]) -> None:
        self._database = database
        self._migrations = {migration.version: migration for migration in migrations}

    async def up(self, to: int | None = None) -> list[Migration]:
        """Apply every step that is missing, up to and including `to`; return those that were applied."""
        async with self._locked() as (connection, applied):
            steps = [
                step
                for step in self._migrations.values()
                if step.version not in applied and step.version <= (to or 999)
            ]
            for step in steps:
                async with connection.transaction():
                    await connection.execute(step.up)
                    await connection.execute(SQL["insert"], step.version, step.name, step.checksum)
                event(log, logging.INFO, "migrated up", migration=str(step))
        return steps

    async def down(self, to: int) -> list[Migration]:
        """Undo every step beyond `to`, the last one first; return those that were undone."""
        async with self._locked() as (connection, applied):
            steps = [self._migrations[version] for version in sorted(applied, reverse=True) if version > to]
            for step in steps:
                async with connection.transaction():
                    await connection.execute(step.down)
                    await connection.execute(SQL["delete"], step.version)
                event(log, logging.INFO, "migrated down", migration=str(step))
        return steps

    async def status(self) -> list[tuple[Migration, bool]]:
        """Return every step with whether it is applied."""
        async with self._locked() as (_, applied):
            return [(step, step.version in applied) for step in self._migrations.values()]

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[tuple[DatabaseConnection, set[int]]]:
        async with self._database.connection() as connection:
            await connection.execute(SQL["lock"], timeout=None)
            try:
                await connection.execute(SQL["create"])
                rows = await connection.fetch(SQL["applied"])
                for row in rows:
                    self._check(row["version"], row["name"], row["checksum"])
                yield connection, {row["version"] for row in rows}
            finally:
                await connection.execute(SQL["unlock"])

    def _check(self, version: int, name: str, checksum: str) -> None:
        step = self._migrations.get(version)
        if step is None or step.name != name:
            raise MigrationRefused(f"{version:03}_{name} is applied, but there is no such file")
        if step.checksum != checksum:
            raise MigrationRefused(f"{step}.up.sql was changed after it was applied; add a new migration instead")


def _arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m announce.store.migrate", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="apply what is missing")
    up.add_argument("--to", type=int, help="number of the last step to apply (default: all)")
    down = commands.add_parser("down", help="undo steps, and lose what is in their tables")
    down.add_argument("--to", type=int, required=True, help="number of the last step to keep; 0 undoes all")
    commands.add_parser("status", help="show what is applied")
    return parser.parse_args(argv)


async def _main() -> None:
    arguments, settings = _arguments(), load_settings(MigrationSettings)
    async with database(settings) as opened:
        await opened.wait()
        migrator = Migrator(opened, read_migrations(settings.migrations_dir))
        match arguments.command:
            case "up":
                await migrator.up(arguments.to)
            case "down":
                await migrator.down(arguments.to)
            case _:
                for step, applied in await migrator.status():
                    sys.stdout.write(f"{'applied' if applied else 'missing'}  {step}\n")


if __name__ == "__main__":
    configure("migrate", "info")
    try:
        asyncio.run(_main())
    except MigrationRefused as error:
        sys.exit(f"migrate: {error}")
