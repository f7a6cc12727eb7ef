"""This node's replica of one storage group: its log, its driver, and what peers see of it."""

from __future__ import annotations

from penstock.node.quorum.driver import QuorumDriver
from penstock.node.storage_groups.group import StorageGroup
from penstock.raft.log_name import LogName


class GroupReplica:
    """See the module. It is what handlers of the consensus core's requests get (`QuorumNode`)."""

    def __init__(self, log: LogName, cluster_id: str, group: StorageGroup) -> None:
        self.log = log
        self.cluster_id = cluster_id
        self.group = group
        self._driver: QuorumDriver | None = None

    async def start(self, driver: QuorumDriver) -> None:
        """Take part. Raises what `StorageGroup.start` raises."""
        self._driver = driver
        await self.group.start(driver)

    @property
    def is_running(self) -> bool:
        """Whether it takes part."""
        return self._driver is not None and self._driver.is_running

    @property
    def quorum(self) -> QuorumDriver:
        """What answers peers, as long as it takes part."""
        assert self._driver is not None, "it has not been started"
        return self._driver
