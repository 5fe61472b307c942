"""What every text and every object from outside must hold to."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class StrictModel(BaseModel):
    """An object from outside: no unknown field, no conversion between types."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def _storable(value: str) -> str:
    if "\0" in value:
        raise PydanticCustomError("nul", "must not contain a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("surrogate", "must not contain a lone surrogate") from None
    return value


Storable = AfterValidator(_storable)
"""Refuses what Postgres can't store. Stands last in an annotation, after limits of length and pattern."""

Text = Annotated[str, Storable]
