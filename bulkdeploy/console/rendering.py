"""Templates with the console's texts and formats. All values are escaped."""

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bulkdeploy.console import formats
from bulkdeploy.console.texts import read_texts

FOLDER = Path(__file__).parent
PAGE_ADDRESS = re.compile(r"[a-z-]{1,40}(\?[^\s\\#]{0,2000})?", re.ASCII)
"""What another page may be called in a form: a page of this console, never another site."""
TEMPLATES, STATIC = FOLDER / "templates", FOLDER / "static"


class Pages:
    """The renderer of pages, created once per process and used by many threads.

    Attributes:
        version: a digest of all files of the console. It is part of URLs, so that browsers load new files after an
            upgrade.
    """

    def __init__(self) -> None:
        self.texts = read_texts()
        parts = sorted(path for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc")
        self.version = hashlib.sha256(b"".join(path.read_bytes() for path in parts)).hexdigest()[:16]
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(formats.FILTERS)
        self._environment.globals.update(
            t=self.texts,
            share=formats.share,
            bar_parts=formats.bar_parts,
            version=self.version,
            address=address,
            kind_of_state=formats.KIND_OF_STATE.get,
            state_of=lru_cache(formats.MOST_CACHED)(self._state),
        )

    def _state(self, value: str) -> Markup:
        """Return the HTML element with the text of a state, in the colour of the state's meaning."""
        kind, text = formats.KIND_OF_STATE.get(value, ""), self.texts.states.get(value)
        return Markup('<span class="state {}">{}</span>').format(kind, text)

    def render(self, template: str, **values: Any) -> str:
        """Return the text that a template creates from these values."""
        return self._environment.get_template(template).render(**values)


def address(page: str, /, *given: Mapping[str, Any], **more: Any) -> str:
    """Return the URL of a page, relative to all other pages, which are in one folder below any prefix of a proxy.

    If a parameter is given twice, the last value is used. Empty parameters are left out.
    """
    if not given and isinstance(one := more.get("id"), str) and len(more) == 1 and one:
        return f"{page}?id={quote_plus(one)}"  # a table has thousands of these links
    values: dict[str, Any] = {}
    for part in (*given, more):
        values |= part
    kept = {name: value for name, value in values.items() if value not in (None, "")}
    return f"{page}?{urlencode(kept, doseq=True)}" if kept else page
