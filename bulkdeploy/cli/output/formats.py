"""The plain output formats json, csv, column, text and yaml. They do not depend on the terminal."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from bulkdeploy.cli.output.answers import Rows, as_rows, filtered

NOT_PRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]")
RULE = "=" * 80


def rendered(answer: Mapping[str, Any], output: str, fields: Sequence[str] = ()) -> str:
    """Return the response as text in a plain format. Unless the text is empty, it ends with a newline."""
    if output in ("json", "yaml"):
        shown = filtered(answer, fields)
        return _json(shown) if output == "json" else _yaml(shown)
    rows = as_rows(answer, fields)
    layouts = {"csv": _csv, "column": _column, "text": _text, "table": _plain_table}
    return layouts[output](rows)


def cell(value: Any) -> str:
    """Return a value as one line of text.

    Booleans, numbers and nested values are written as JSON. None becomes an empty text.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def duration(seconds: float) -> str:
    """Return a number of seconds as text, such as ``2 min 5 s``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def printable(text: str) -> str:
    """Return the text without characters that would move a terminal's cursor or change its state."""
    return NOT_PRINTABLE.sub(lambda match: " " if match.group() in "\n\t" else "\N{REPLACEMENT CHARACTER}", text)


def _json(answer: Any) -> str:
    return json.dumps(answer, indent=2, ensure_ascii=False) + "\n" if answer else ""


def _yaml(answer: Any) -> str:
    import yaml  # noqa: PLC0415 - a library that only this format needs

    return str(yaml.safe_dump(answer, sort_keys=False, allow_unicode=True)) if answer else ""


def _csv(rows: Rows) -> str:
    if not rows.rows:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows.columns)
    writer.writerows([cell(row.get(name)) for name in rows.columns] for row in rows.rows)
    return text.getvalue()


def _column(rows: Rows) -> str:
    if not rows.rows:
        return ""
    return _aligned([[name.upper() for name in rows.columns], *_cells(rows)], gap="  ")


def _plain_table(rows: Rows) -> str:
    """Return a table drawn with ASCII signs, as wide as its content; a single object is a row per field."""
    if not rows.rows:
        return ""
    if rows.single:
        header = ["field", "value"]
        body = [[name, printable(cell(rows.rows[0].get(name)))] for name in rows.columns if name in rows.rows[0]]
    else:
        header, body = list(rows.columns), _cells(rows)
    widths = [max(map(cell_len, column)) for column in zip(header, *body, strict=True)]
    edge = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    lines = [edge, _barred(header, widths), edge, *(_barred(row, widths) for row in body), edge]
    return "\n".join(lines) + "\n"


def _barred(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(map(_padded, row, widths)) + " |"


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _text(rows: Rows) -> str:
    blocks = [
        "".join(f"{name} = {printable(cell(row[name]))}\n" for name in rows.columns if name in row)
        for row in rows.rows
    ]
    return f"{RULE}\n".join(blocks)


def _cells(rows: Rows) -> list[list[str]]:
    return [[printable(cell(row.get(name))) for name in rows.columns] for row in rows.rows]


def _aligned(lines: Sequence[Sequence[str]], gap: str) -> str:
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    texts = (gap.join(map(_padded, line, widths)).rstrip() for line in lines)
    return "\n".join(texts) + "\n"
