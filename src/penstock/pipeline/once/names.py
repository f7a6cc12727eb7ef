"""Which transactional id a task of a worker process takes.

Who begins with an id aborts what is open under it. So the id of an earlier task is taken again only when its
transaction is known to be over: a later batch is there, which begins when the one before is carried out. In all other
cases the id is new.
"""

from typing import Final
from urllib.parse import quote

PREFIX: Final = "penstock-sink"
SEPARATOR: Final = "/"


def ids_of(query: str) -> str:
    """What the ids of a query's tasks begin with, and those of no other query: names of writes may have any letters."""
    return f"{PREFIX}{SEPARATOR}{quote(query, safe='')}{SEPARATOR}"


def decider_of(query: str) -> str:
    """The id under which decisions are written: none of the former."""
    return f"{PREFIX}-decisions{SEPARATOR}{query}"


class TaskNames:
    """The ids of one worker process, which does one task at a time, for one query."""

    def __init__(self, query: str, process: str) -> None:
        """`process` is a name that no other process has."""
        self._query, self._process = query, process
        self._batches: list[int] = []
        """By the number of an id: the batch of the last task that took it."""

    def take(self, batch: int) -> str:
        """For a task of that batch: the first id that may be taken again, else a new one."""
        free = (number for number, last in enumerate(self._batches) if last < batch)
        number = next(free, len(self._batches))
        self._batches[number : number + 1] = [batch]
        return f"{ids_of(self._query)}{self._process}-{number + 1}"
