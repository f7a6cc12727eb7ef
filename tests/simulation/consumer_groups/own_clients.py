"""A member of the consumer protocol whose machine is that of `penstock.client`."""

from __future__ import annotations

from typing import Any

from tests.simulation.consumer_groups.clients import REBALANCE_TIMEOUT_MS, REQUEST_TIMEOUT_MS, Client
from tests.simulation.consumer_groups.world import GROUP

from penstock.client.consumer.reconciling import Reconciling
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class OwnClient(Client):
    def start(self) -> None:
        Client.made += 1
        self.run += 1
        self.member_id = f"m{Client.made}"
        self.is_running, self.is_paused = True, False
        self.machine = Reconciling(
            GROUP, self.member_id, rebalance_timeout_ms=REBALANCE_TIMEOUT_MS, instance_id=self.instance_id
        )
        self.owned, self.asked, self.is_coming = set(), None, False
        self.choose_topics()
        self._beat(self.run)

    def leave(self) -> None:
        self.owned = set()
        request = self.machine.leaving()
        self.die()
        self.world.ask(request, lambda _: None, may_be_late=True)

    def reconnect(self) -> None:
        if self.is_running:
            self.machine.unanswered()

    def _beat(self, run: int) -> None:
        if run != self.run or not self.is_running:
            return
        if self.is_paused:
            self.world.after(500, lambda: self._beat(run))
            return
        self.machine.subscribe(self.names, self.expression)
        request = self.asked = self.machine.request()
        may_be_late = request.topic_partitions is None
        self.world.ask(request, lambda response: self._heard(run, request, response), may_be_late=may_be_late)
        self.world.after(REQUEST_TIMEOUT_MS, lambda: self._give_up(run, request))

    def _give_up(self, run: int, request: ConsumerGroupHeartbeatRequest) -> None:
        if run == self.run and self.asked is request:
            self.asked = None
            self.machine.unanswered()
            self._beat(run)

    def _heard(self, run: int, request: ConsumerGroupHeartbeatRequest, response: Any) -> None:
        if run != self.run or self.asked is not request:
            return
        if self.is_paused:
            self.world.after(500, lambda: self._heard(run, request, response))
            return
        self.asked = None
        if response.error_code == ErrorCode.NONE:
            self.machine.answered(response)
            self._come_to_target(run)
        else:
            try:
                self.machine.refused(KafkaError(ErrorCode(response.error_code)))
            except KafkaError as error:
                if error.code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
                    self.die()
                    return
                if error.code is not ErrorCode.UNKNOWN_SERVER_ERROR:
                    raise
                self.machine.unanswered()
            self.owned = set(self.machine.owned)
            self.machine.is_lost = False
        self.world.after(self.random.choice((200, 1_000)), lambda: self._beat(run))

    def _come_to_target(self, run: int) -> None:
        if self.is_coming or (target := self.machine.begin()) is None:
            return
        self.is_coming = True

        def come() -> None:
            if run != self.run:
                return
            self.is_coming = False
            self.machine.come_to(target)
            self.owned = set(self.machine.owned)
            self._come_to_target(run)

        longest_ms = 7_000 if self.world.chance(0.1) else 300
        self.world.after(self.random.randrange(1, longest_ms) if self.owned - target else 1, come)
