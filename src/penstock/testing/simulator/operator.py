"""The operator of a simulated cluster: makes leaders resign, and takes voters out of the quorum and in again."""

from random import Random

from penstock.client.admin import Admin
from penstock.client.admin.quorum import QuorumEndpoint, QuorumInfo
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.testing.simulator.admin_client import AdminClient
from penstock.testing.simulator.clients import World
from penstock.testing.simulator.plan import CONTROLLER_PORT, Plan

FEWEST_VOTERS = 2
MEAN_PAUSE_S = 3.0


class OperatingClient(AdminClient):
    """None of its acts may cost more than a moment."""

    def __init__(self, world: World, name: str, random: Random, plan: Plan) -> None:
        super().__init__(world, name, random, MEAN_PAUSE_S)
        self._plan = plan

    def _failed(self, error: Exception) -> None:
        super()._failed(error)
        if isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
            self._world.ledger.violated(f"{self.name}: {error!r}")

    async def _act(self, admin: Admin) -> None:
        info = await admin.quorum.describe()
        voters = {voter.node_id: voter.directory_id for voter in info.voters}
        lot = self._random.random()
        if lot < 0.3 and len(voters) > 1:
            await self._resign(admin, info)
        elif lot < 0.6 and self._plan.voters_may_change and len(voters) > FEWEST_VOTERS:
            node_id = self._random.choice(list(voters))
            self._note(f"remove voter {node_id} of {list(voters)}")
            await admin.quorum.remove_voter(node_id, voters[node_id])
            self._note(f"remove voter {node_id}: acknowledged")
        elif self._plan.voters_may_change:
            await self._add(admin, info)

    async def _resign(self, admin: Admin, info: QuorumInfo) -> None:
        successor = self._random.choice([-1, *(voter.node_id for voter in info.voters)])
        self._note(f"leader {info.leader_id} shall resign for {successor}")
        after = await admin.quorum.resign(info, successor)
        self._note(f"leader {after.leader_id} of epoch {after.leader_epoch}")

    async def _add(self, admin: Admin, info: QuorumInfo) -> None:
        voters = [voter.node_id for voter in info.voters]
        for node in self._plan.nodes:
            known = next((observer for observer in info.observers if observer.node_id == node.node_id), None)
            if node.is_controller and node.node_id not in voters and known is not None:
                self._note(f"add voter {node.node_id} to {voters}")
                endpoint = QuorumEndpoint("CONTROLLER", node.name, CONTROLLER_PORT)
                await admin.quorum.add_voter(node.node_id, known.directory_id, [endpoint])
                self._note(f"add voter {node.node_id}: acknowledged")
                return
