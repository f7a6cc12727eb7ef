"""How this broker joins its cluster and leaves it: registration, then a heartbeat that unfences it."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from penstock.metadata.image import Endpoint
from penstock.node.controller_driver import METADATA_VERSION, ControllerDriver
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener

LOWEST_METADATA_VERSION = 7
"""The lowest level of metadata.version that Kafka 4 runs at (3.3-IV3)."""

UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """Who a broker is in this run of its process; `previous_epoch` is known after a clean stop only (KIP-966)."""

    node_id: int
    incarnation_id: UUID
    endpoints: Sequence[Endpoint]
    rack: str | None = None
    log_dirs: Sequence[UUID] = ()
    previous_epoch: int = UNKNOWN_EPOCH


async def join(controller: ControllerDriver, identity: BrokerIdentity) -> int:
    """Registers the broker, and unfences it as it has seen its registration; returns its epoch.

    Raises KafkaError with the code by which the controller refused.
    """
    registered = await controller.submit(
        BrokerRegistrationRequest(
            broker_id=identity.node_id,
            cluster_id=controller.image.cluster_id,
            incarnation_id=identity.incarnation_id,
            listeners=[
                Listener(name=e.listener, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in identity.endpoints
            ],
            features=[
                Feature(
                    name="metadata.version",
                    min_supported_version=LOWEST_METADATA_VERSION,
                    max_supported_version=METADATA_VERSION,
                )
            ],
            rack=identity.rack,
            log_dirs=list(identity.log_dirs),
            previous_broker_epoch=identity.previous_epoch,
        )
    )
    _check(registered.error_code)
    epoch: int = registered.broker_epoch
    alive = await controller.submit(
        BrokerHeartbeatRequest(
            broker_id=identity.node_id, broker_epoch=epoch, current_metadata_offset=controller.image.offset
        )
    )
    _check(alive.error_code)
    return epoch


def _check(error_code: int) -> None:
    if error_code != ErrorCode.NONE:
        code = ErrorCode(error_code)
        raise KafkaError(code, f"the controller refuses this broker: {code.name}")
