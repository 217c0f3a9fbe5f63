"""Tests whether TCP ports accept connections, many at a time."""

import asyncio
from collections.abc import Sequence

AT_ONCE = 256
"""The most connections that are opened at the same time."""


def reachable_ports(ports: Sequence[tuple[str | None, int | None]], *, timeout_s: float) -> list[bool]:
    """Return, in order, whether each address and port accepts a connection within ``timeout_s``.

    The result is False for a pair with None. Connections are closed immediately.
    """
    return asyncio.run(_reach_all(ports, timeout_s))


async def _reach_all(ports: Sequence[tuple[str | None, int | None]], timeout_s: float) -> list[bool]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def reach(address: str | None, port: int | None) -> bool:
        if address is None or port is None:
            return False
        async with turns:
            return await _accepts(address, port, timeout_s)

    return list(await asyncio.gather(*(reach(address, port) for address, port in ports)))


async def _accepts(address: str, port: int, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(address, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
