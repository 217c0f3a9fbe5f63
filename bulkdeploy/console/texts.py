"""The texts of the console, read from ``texts.toml``. A translation is another such file."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("texts.toml")
ONE_OR_MANY = " | "


class Text(str):
    """A text of the console. Calling it returns the text with its fields filled in.

    ``{count} VM | {count} VMs`` has two forms: the first for a count of one, the second for all other counts.
    """

    __slots__ = ()

    def __call__(self, **values: object) -> str:
        """Return the text with its fields replaced by ``values``."""
        one, _, many = self.partition(ONE_OR_MANY)
        return (many if many and values.get("count") != 1 else one).format(**values)


class Texts:
    """Texts by name, in groups: ``texts.deploy.title``."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = {
            name: Texts(value) if isinstance(value, dict) else Text(value) for name, value in content.items()
        }

    def __getattr__(self, name: str) -> Any:
        """Return the text or group with this name.

        Raises:
            AttributeError: there is no text or group with this name.
        """
        try:
            return self._content[name]
        except KeyError:
            raise AttributeError(f"the console has no text {name!r}") from None

    def get(self, name: str, default: str | None = None) -> Text:
        """Return the text with this name. If there is none, the default or else the name itself is returned.

        So values that only later versions of the API return are shown unchanged.
        """
        found = self._content.get(name)
        return found if isinstance(found, Text) else Text(name if default is None else default)

    def items(self) -> list[tuple[str, Text]]:
        """Return the names and the texts of this group. Inner groups are left out."""
        return [(name, value) for name, value in self._content.items() if isinstance(value, Text)]


def read_texts() -> Texts:
    """Read the console's texts from the TOML file and return them."""
    return Texts(tomllib.loads(FILE.read_text("utf-8")))
