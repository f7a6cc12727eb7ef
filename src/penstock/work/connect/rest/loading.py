"""Classes that configurations name, loaded in threads for whoever asks: a class that hangs has one thread, whatever the
number of questions, and those who only look do not wait for it.
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from penstock.work.connect.calls import called_apart
from penstock.work.connect.plugins import find_class
from penstock.work.connect.rest.errors import RestError
from penstock.work.connect.runtime.kinds import BUILT_IN
from penstock.work.connect.runtime.secret_values import Config, plugins_of

LIMIT_S: Final = 90.0
"""How long a request that needs a plugin waits for it."""
LOOK_S: Final = 5.0
"""How long those who look wait for a class, from the beginning of its loading on."""
Name = tuple[str, str]
"""The kind, and what the class is called."""


class Loading:
    def __init__(self) -> None:
        self._known: dict[Name, None] = {}
        self._under_way: dict[Name, tuple[asyncio.Task[None], float]] = {}

    async def seen(self, configs: Sequence[Config]) -> list[bool]:
        """Of which the classes are loaded, or cannot be; the others wait no longer for them."""
        wanted, loop = [self._begun(config) for config in configs], asyncio.get_running_loop()
        for name in dict.fromkeys(name for names in wanted for name in names):
            if name in self._under_way:
                task, began_s = self._under_way[name]
                await asyncio.wait([task], timeout=max(began_s + LOOK_S - loop.time(), 0))
        return [not any(name in self._under_way for name in names) for names in wanted]

    async def needed(self, config: Config) -> None:
        """Wait until they are loaded, or cannot be; RestError."""
        under_way = [self._under_way[name][0] for name in self._begun(config)]
        if under_way and (await asyncio.wait(under_way, timeout=LIMIT_S))[1]:
            raise RestError(HTTPStatus.INTERNAL_SERVER_ERROR, f"the plugin has not answered for {LIMIT_S:g} s")

    def _begun(self, config: Config) -> list[Name]:
        """Those that are not loaded yet, each on its way."""
        names = [(kind, name) for _, kind, name in plugins_of(config) if name and (kind, name) not in self._known]
        for name in names:
            if name not in self._under_way:
                task = asyncio.create_task(self._load(name), name=f"load {name[1]}")
                self._under_way[name] = task, asyncio.get_running_loop().time()
        return names

    async def _load(self, name: Name) -> None:
        kind, text = name
        try:
            await called_apart("plugins", find_class, text, BUILT_IN[kind], kind)
            self._known[name] = None
        except Exception:
            pass  # who makes something of it is told
        finally:
            del self._under_way[name]
