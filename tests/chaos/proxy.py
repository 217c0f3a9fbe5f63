"""A proxy between a server and those who use it: it cuts, truncates, withholds and slows what goes through.

It runs in a thread of its own; its methods may be called from any other.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

Address = Path | int
"""A Unix socket, or a port of the loopback interface."""

CHUNK_BYTES = 64 * 1024


class Network:
    """The thread in which all proxies run."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` there and wait for it."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(timeout=30)

    def close(self) -> None:
        """End all proxies."""
        self.run(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_all(self) -> None:
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Proxy:
    """Passes connections from ``address`` on to ``target``.

    Args:
        network: where it runs.
        address: where it listens.
        target: the server behind.
        heard: is told each piece of what users ask that the server has got.
    """

    def __init__(
        self,
        network: Network,
        address: Address,
        target: Address,
        heard: Callable[[bytes], object] = len,
    ) -> None:
        self.address, self._target, self._network, self._heard = address, target, network, heard
        self._writers: set[asyncio.StreamWriter] = set()
        self._delay_s = 0.0
        self._swallows_answers = False
        self._truncates_every = self._pieces = 0
        self._server, self._open = network.run(self._listen())

    def cut(self) -> int:
        """Break all connections; how many."""
        return self._network.run(self._cut())

    def hold(self) -> None:
        """Let nothing through, and say nothing about it."""
        self._network.run(self._set(is_open=False))

    def release(self) -> None:
        """Let go on what was throttled."""
        self._network.run(self._set(is_open=True))

    def slow(self, delay_s: float) -> None:
        """Let every piece take so much longer; 0: no longer."""
        self._delay_s = delay_s

    def swallow_answers(self, *, swallow: bool) -> None:
        """Let what users ask get through, and nothing of what they are answered."""
        self._swallows_answers = swallow

    def truncate(self, every: int) -> None:
        """Of each so many pieces of answers one is let through by half, and its connection broken; 0: of none."""
        self._truncates_every = every

    def close(self) -> None:
        """Break everything and listen no more."""
        self._network.run(self._close())

    async def _listen(self) -> tuple[asyncio.Server, asyncio.Event]:
        is_open = asyncio.Event()
        is_open.set()
        if isinstance(self.address, Path):
            return await asyncio.start_unix_server(self._serve, self.address), is_open
        return await asyncio.start_server(self._serve, "127.0.0.1", self.address), is_open

    async def _set(self, *, is_open: bool) -> None:
        if is_open:
            self._open.set()
        else:
            self._open.clear()

    async def _cut(self) -> int:
        broken = len(self._writers)
        for writer in self._writers:
            writer.transport.abort()
        return broken // 2

    async def _close(self) -> None:
        self._server.close()
        await self._cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = {writer}
        self._writers.add(writer)
        try:
            await self._open.wait()
            target_reader, target_writer = await self._connect()
            mine.add(target_writer)
            self._writers.add(target_writer)
            pumps = [
                asyncio.create_task(self._pump(reader, target_writer)),
                asyncio.create_task(self._pump(target_reader, writer, is_answer=True)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass
        finally:
            for each in mine:
                self._writers.discard(each)
                each.transport.abort()

    def _is_truncated(self) -> bool:
        self._pieces += 1
        return self._truncates_every > 0 and self._pieces % self._truncates_every == 0

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, Path):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection("127.0.0.1", self._target)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool = False
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._open.wait()
                if is_answer and self._swallows_answers:
                    continue
                if is_answer and self._is_truncated():
                    writer.write(data[: len(data) // 2])
                    return
                writer.write(data)
                await writer.drain()
                if not is_answer:
                    self._heard(data)
