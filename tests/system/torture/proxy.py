"""A small proxy between two who talk, which can cut them off: a reset in the middle of whatever they say."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import PATIENCE_SECONDS

PORTION = 65536

Address = Path | tuple[str, int]
"""A unix socket, or host and port."""


@dataclass(frozen=True)
class Pair:
    """Both ends of one conversation."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter

    def cut(self) -> None:
        for end in (self.near, self.far):
            sock = end.get_extra_info("socket")
            if sock.fileno() != -1 and sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, no farewell
            end.transport.abort()


class Proxy:
    """Listens at one address and passes all on to *target*, in a thread of its own."""

    def __init__(self, at: Address, target: Address) -> None:
        self._target = target
        self._pairs: set[Pair] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(at), self._loop).result()

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    def turn(self, target: Address) -> None:
        """Pass all that comes from now on to another one, and reset all that is connected."""
        self._target = target
        self.cut()

    def cut(self) -> None:
        """Reset all that is connected."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def close(self) -> None:
        async def close() -> None:
            self._server.close()
            await self._cut()
            talks = asyncio.all_tasks() - {asyncio.current_task()}
            if talks:  # all are cut, so they end
                _, endless = await asyncio.wait(talks, timeout=PATIENCE_SECONDS)
                for task in endless:
                    task.cancel()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cut(self) -> None:
        for pair in list(self._pairs):
            pair.cut()

    async def _listen(self, at: Address) -> asyncio.Server:
        if isinstance(at, Path):
            return await asyncio.start_unix_server(self._talk, at)
        return await asyncio.start_server(self._talk, *at)

    async def _talk(self, near_reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        try:
            if isinstance(self._target, Path):
                far_reader, far = await asyncio.open_unix_connection(self._target)
            else:
                far_reader, far = await asyncio.open_connection(*self._target)
        except OSError:
            near.transport.abort()
            return
        pair = Pair(near, far)
        self._pairs.add(pair)
        try:
            await asyncio.gather(_pass(near_reader, far), _pass(far_reader, near))
        except OSError:
            pair.cut()
        finally:
            self._pairs.discard(pair)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while some := await reader.read(PORTION):
        writer.write(some)
        await writer.drain()
    writer.close()
