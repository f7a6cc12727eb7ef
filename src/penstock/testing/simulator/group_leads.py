"""At each moment of the true time one replica of a storage group holds the lease and answers, or none."""

from collections.abc import Callable
from typing import Protocol

from penstock.node.storage_groups.group import StorageGroup


class Host(Protocol):
    name: str

    def groups_led(self) -> dict[int, StorageGroup]:
        """As far as the broker knows."""

    def may_read(self, group: StorageGroup) -> bool:
        """Whether the broker would answer reads of the group, by its own clock."""


class GroupLeads:
    """Compares what brokers believe after each of their events; `violated` is told where two hold a lease."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self._led: dict[str, dict[int, StorageGroup]] = {}
        self._hosts: dict[str, Host] = {}
        self._disputed: dict[int, list[Host]] = {}
        """Groups that several believe they lead."""
        self._told: dict[int, None] = {}

    def look(self, host: Host) -> None:
        """Called after an event on this host; leases of other hosts may have run out meanwhile."""
        led = host.groups_led()
        if led != self._led.get(host.name):
            self._led[host.name], self._hosts[host.name] = led, host
            self._compare()
        for number, hosts in self._disputed.items():
            if number in led and number not in self._told:
                self._check(number, hosts)

    def _compare(self) -> None:
        leaders: dict[int, list[Host]] = {}
        for name, led in self._led.items():
            for number in led:
                leaders.setdefault(number, []).append(self._hosts[name])
        self._disputed = {number: hosts for number, hosts in leaders.items() if len(hosts) > 1}

    def _check(self, number: int, hosts: list[Host]) -> None:
        serving = []
        for host in hosts:
            group = host.groups_led().get(number)
            if group is not None and host.may_read(group):
                serving.append(host.name)
        if len(serving) > 1:
            self._told[number] = None
            self._violated(f"{' and '.join(serving)} hold the lease of storage group {number} at once")
