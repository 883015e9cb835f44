"""Parts of a spec file: mappings with known keys, told apart by the key they need."""

import difflib
from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Discriminator, model_validator

from leastnoise.errors import LeastnoiseError
from leastnoise.workload.fields import UnknownKeyError, hint, shown


class Part(BaseModel):
    """A mapping of the spec; unknown keys are reported with a hint."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    called: ClassVar[str] = ""
    kind: ClassVar[str] = ""  # the key that tells this part from its siblings
    example: ClassVar[str] = ""

    @classmethod
    def known_keys(cls) -> list[str]:
        """The keys that a user may write."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @model_validator(mode="before")
    @classmethod
    def check_keys(cls, data: object) -> object:
        """Refuse what is no mapping, and unknown keys."""
        if not isinstance(data, Mapping):
            raise LeastnoiseError(f"{cls.called} is {shown(data)}; write for example {cls.example}")
        where = f"{cls.called} with {cls.kind!r}" if cls.kind in data else cls.called
        for key in data:
            if key not in cls.known_keys():
                raise UnknownKeyError(key, f"unknown key {shown(key)} in {where}; {hint(key, cls.known_keys())}")
        return data


def key_kind(*keys: str) -> Discriminator:
    """Tell models apart by the key they need; a misspelt key counts, so that the model can give its hint."""

    def kind(data: object) -> str:
        if isinstance(data, Mapping):
            close = [m for key in data for m in difflib.get_close_matches(str(key), keys, n=1)]
            for key in (*(k for k in keys if k in data), *close):
                return f"#{key}"
        return f"#{keys[-1]}"

    return Discriminator(kind)
