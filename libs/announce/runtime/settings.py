"""Settings come from the environment. Each component declares its own; each service composes what it uses."""

import sys
from typing import NoReturn, TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

SettingsT = TypeVar("SettingsT", bound="Settings")


class Settings(BaseSettings):
    """A component's settings: variables start with BA_, and an empty one counts as not set."""

    model_config = SettingsConfigDict(env_prefix="BA_", env_ignore_empty=True, frozen=True, hide_input_in_errors=True)


class ServiceSettings(Settings):
    """What every service has."""

    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="Least level that is logged.")
    shutdown_grace_s: float = Field(
        35,
        gt=0,
        description="Seconds that work in flight gets to end after SIGTERM; the rest is handed back.",
    )


def load(settings: type[SettingsT]) -> SettingsT:
    """Read settings from the environment; a wrong value ends the process with one line that names it."""
    try:
        return settings()
    except ValidationError as error:
        _refuse(settings, error)


def _refuse(settings: type[Settings], error: ValidationError) -> NoReturn:
    prefix = settings.model_config["env_prefix"]
    faults = (
        f"{prefix}{'_'.join(map(str, detail['loc']))}".upper() + f": {detail['msg']}"
        for detail in error.errors(include_input=False, include_url=False)
    )
    sys.exit("settings: " + "; ".join(faults))
