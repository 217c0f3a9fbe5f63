"""What the values of an inventory file must be: each function describes one kind of value.

A value that breaks a rule is refused with the rule and what was found instead.
"""

import re
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import TypeVar

from bulkdeploy.domain.units import GIB, MIB
from bulkdeploy.services.inventory.inventory_document import Entries, Items, Node, Refused, Scalar, Value

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

MISSING = "\0"
"""Stands in for a name that was refused: no real name holds it."""

NO_IP = "0.0.0.0"  # noqa: S104 - nobody binds to it
"""Stands in for an address that was refused."""

NO_NETMASK = "255.255.255.255"
"""Stands in for a netmask that was refused: no network of one address is of use."""

UNPRINTABLE = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that no value may hold: PostgreSQL cannot keep them, or a terminal would obey them."""

LONGEST_TEXT = 4096
LONGEST_NAME = 255
UNITS = {"PiB": 1024 * 1024 * GIB, "TiB": 1024 * GIB, "GiB": GIB, "MiB": MIB, "KiB": 1024, "B": 1}
SIZE = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,3}))? ?(PiB|TiB|GiB|MiB|KiB|B)", re.ASCII)
WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
DECIMAL = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,3})?", re.ASCII)
HOST_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)
DOMAIN_PATH = re.compile(r"ROOT(?:/[^/]+)*")


def shown(written: str) -> str:
    """What was found, short enough for a message."""
    return repr(written) if len(written) <= 60 else f"{written[:57]!r}... ({len(written)} characters)"


def scalar_text(node: Node, rule: str) -> str:
    """The text of a single value that a database can keep."""
    if not isinstance(node, Scalar):
        raise Refused(node.line, f"{rule}, not a {'list' if isinstance(node, Items) else 'mapping'}")
    if UNPRINTABLE.search(node.text):
        raise Refused(node.line, f"{rule}, without control characters and halves of surrogate pairs")
    return node.text


def matching(rule: str, convert: Callable[[str], T | None], stand_in: T, *, secret: bool = False) -> Value[T]:
    """A single value that ``convert`` accepts; it answers None for what breaks the rule.

    A ``secret`` value is not repeated in the refusal.
    """

    def read(node: Node) -> T:
        written = scalar_text(node, rule)
        converted = convert(written)
        if converted is None:
            raise Refused(node.line, rule if secret else f"{rule}, not {shown(written)}")
        return converted

    return Value(read, stand_in)


def text(longest: int = LONGEST_TEXT) -> Value[str]:
    """Any text."""
    return matching(
        f"must be text of at most {longest} characters",
        lambda written: written if len(written) <= longest else None,
        "",
    )


def name() -> Value[str]:
    """A name in any script: one line, no white space around it."""
    return matching(
        f"must be a name: 1 to {LONGEST_NAME} characters in one line, no spaces around it",
        lambda written: (
            written
            if 0 < len(written) <= LONGEST_NAME and written == written.strip() and "\n" not in written
            else None
        ),
        MISSING,
    )


def host_name(longest: int = 63) -> Value[str]:
    """A name that may stand in DNS (RFC 1035)."""
    return matching(
        f"must be a host name: a letter, then letters, digits and hyphens, at most {longest}, no hyphen at the end",
        lambda written: written if HOST_NAME.fullmatch(written) and len(written) <= longest else None,
        MISSING,
    )


def domain_path() -> Value[str]:
    """A domain by its path of names from ROOT."""
    return matching(
        "must be the path of a domain: ROOT, or ROOT/name/name",
        lambda written: written if DOMAIN_PATH.fullmatch(written) and len(written) <= LONGEST_NAME else None,
        "ROOT",
    )


def whole(least: int, most: int) -> Value[int]:
    """A whole number in plain decimal digits."""
    return matching(
        f"must be a whole number from {least} to {most}",
        lambda written: int(written) if WHOLE.fullmatch(written) and least <= int(written) <= most else None,
        least,
    )


def decimal(least: int, most: int) -> Value[Decimal]:
    """A number with up to three decimals."""
    return matching(
        f"must be a number from {least} to {most} with at most 3 decimals",
        lambda written: (
            Decimal(written) if DECIMAL.fullmatch(written) and least <= Decimal(written) <= most else None
        ),
        Decimal(least),
    )


def flag() -> Value[bool]:
    """``true`` or ``false``."""
    return matching("must be true or false", {"true": True, "false": False}.get, stand_in=False)


def choice(kind: type[E]) -> Value[E]:
    """One of the words of an enumeration, in any case."""
    words = {str(member.value).lower(): member for member in kind}
    listed = ", ".join(str(member.value) for member in kind)
    return matching(f"must be one of {listed}", lambda written: words.get(written.lower()), next(iter(kind)))


def one_of(*words: str) -> Value[str]:
    """One of these words, as they are spelled."""
    return matching(
        f"must be one of {', '.join(words)}", lambda written: written if written in words else None, words[0]
    )


def size(least: int, most: int, unit: int) -> Value[int]:
    """An amount such as ``512 MiB`` or ``1.5 TiB``, counted in ``unit`` bytes and whole in it."""

    def convert(written: str) -> int | None:
        found = SIZE.fullmatch(written)
        if found is None:
            return None
        digits, decimals, word = found.groups(default="")
        amount, rest = divmod(int(digits + decimals) * UNITS[word], unit * 10 ** len(decimals))
        return amount if rest == 0 and least <= amount <= most else None

    rule = f"must be a size from {size_text(least * unit)} to {size_text(most * unit)}, such as 512 GiB"
    return matching(rule, convert, least)


def size_text(size_bytes: int) -> str:
    """Bytes in the largest unit that gives a whole number: the inverse of ``size``."""
    unit = next(word for word in UNITS if size_bytes % UNITS[word] == 0) if size_bytes else "B"
    return f"{size_bytes // UNITS[unit]} {unit}"


def ip_address() -> Value[str]:
    """An IPv4 address."""

    def convert(written: str) -> str | None:
        try:
            return str(IPv4Address(written))
        except AddressValueError:
            return None

    return matching("must be an IPv4 address", convert, NO_IP)


def cidr() -> Value[str]:
    """An IPv4 network such as ``10.1.0.0/16``, without host bits."""

    def convert(written: str) -> str | None:
        try:
            return str(IPv4Network(written)) if "/" in written else None
        except (AddressValueError, NetmaskValueError, ValueError):
            return None

    return matching("must be an IPv4 network such as 10.1.0.0/16", convert, "0.0.0.0/0")


def netmask() -> Value[str]:
    """An IPv4 netmask such as ``255.255.0.0``."""

    def convert(written: str) -> str | None:
        try:
            network = IPv4Network(f"0.0.0.0/{written}")
        except (AddressValueError, NetmaskValueError, ValueError):
            return None
        return written if str(network.netmask) == written else None

    return matching("must be a netmask such as 255.255.0.0", convert, NO_NETMASK)


def list_of(value: Value[T], *, most: int = 1000) -> Value[tuple[T, ...]]:
    """A list of such values, each once."""

    def read(node: Node) -> tuple[T, ...]:
        if not isinstance(node, Items):
            raise Refused(node.line, "must be a list")
        if len(node.nodes) > most:
            raise Refused(node.line, f"must be a list of at most {most}, not of {len(node.nodes)}")
        items: list[T] = []
        for at, item in enumerate(node.nodes):
            try:
                found = value.read(item)
            except Refused as refused:
                raise Refused(refused.line, refused.rule, f"[{at}]{refused.suffix}") from refused
            if found in items:
                raise Refused(item.line, f"is in the list already: {found}", f"[{at}]")
            items.append(found)
        return tuple(items)

    return Value(read, ())


def text_map() -> Value[Mapping[str, str]]:
    """A mapping of names to texts; the order does not count."""
    return map_of(lambda _: text())


def map_of(value_of: Callable[[str], Value[str]]) -> Value[Mapping[str, str]]:
    """A mapping of names to texts; ``value_of`` tells what the text under a name must be."""

    def read(node: Node) -> Mapping[str, str]:
        if not isinstance(node, Entries):
            raise Refused(node.line, "must be a mapping of names to texts")
        found: dict[str, str] = {}
        for key, item in node.nodes.items():
            try:
                found[name().read(Scalar(item.line, key))] = value_of(key).read(item)
            except Refused as refused:
                raise Refused(refused.line, refused.rule, f".{key[:LONGEST_NAME]}") from refused
        return found

    return Value(read, {})


def or_word(word: str, meaning: T, value: Value[T]) -> Value[T]:
    """The value, or a word that stands for ``meaning``."""

    def read(node: Node) -> T:
        if isinstance(node, Scalar) and node.text == word:
            return meaning
        try:
            return value.read(node)
        except Refused as refused:
            raise Refused(refused.line, f"{refused.rule} (or {word})", refused.suffix) from refused

    return Value(read, value.stand_in)


def reference(noun: str, known: Collection[str]) -> Value[str]:
    """The name of something that the file describes."""
    return named(noun, {name: name for name in known}, MISSING)


def named(noun: str, known: Mapping[str, T], stand_in: T) -> Value[T]:
    """What a name that the file describes stands for."""

    def read(node: Node) -> T:
        rule = f"must be the name of {noun}"
        written = scalar_text(node, rule)
        if written in known:
            return known[written]
        near = get_close_matches(written, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the file describes no {shown(written)}"
        raise Refused(node.line, f"{rule} in this file: {hint}")

    return Value(read, stand_in)
