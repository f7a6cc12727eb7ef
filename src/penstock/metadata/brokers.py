"""Brokers and controllers as they registered themselves: immutable parts of the `ClusterImage`."""

from uuid import UUID

from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    NodeEndpoint,
    NodeFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from penstock.protocol.value import Value

FENCE = 1
UNFENCE = -1
"""A value of `BrokerRegistrationChangeRecord.fenced`; 0 leaves it as it is (KIP-841)."""


class Endpoint(Value):
    listener: str
    host: str
    port: int
    security_protocol: int = 0


class Feature(Value):
    """Both levels are included."""

    lowest: int
    newest: int


class BrokerImage(Value):
    """`epoch` is the offset of the record that registered it. A fenced broker leads nothing; clients do not see it."""

    node_id: int
    epoch: int
    incarnation_id: UUID
    endpoints: dict[str, Endpoint]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    features: dict[str, Feature]
    directories: tuple[UUID, ...]
    cordoned_directories: tuple[UUID, ...] | None = None
    """They are to get no new replicas (KIP-1066); None until the broker said."""

    @property
    def active(self) -> bool:
        """Only active brokers may lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def takes_replicas(self) -> bool:
        """Not where all its directories are cordoned."""
        cordoned = self.cordoned_directories
        return not cordoned or not self.directories or any(it not in cordoned for it in self.directories)

    def endpoint(self, listener: str) -> Endpoint | None:
        return self.endpoints.get(listener)


class ControllerImage(Value):
    node_id: int
    incarnation_id: UUID
    endpoints: dict[str, Endpoint]
    features: dict[str, Feature]
    zk_migration_ready: bool = False


def broker_from(record: RegisterBrokerRecord) -> BrokerImage:
    return BrokerImage(
        node_id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints_of(record),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        features=_features_of(record),
        directories=tuple(record.log_dirs),
        cordoned_directories=_cordoned(record, None),
    )


def broker_changed(broker: BrokerImage, record: BrokerRegistrationChangeRecord) -> BrokerImage:
    """The record changes only the fields that it sets."""
    return broker.replace(
        fenced={FENCE: True, UNFENCE: False}.get(record.fenced, broker.fenced),
        in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
        directories=tuple(record.log_dirs) or broker.directories,
        cordoned_directories=_cordoned(record, broker.cordoned_directories),
    )


def broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=_endpoint_records(broker),
        features=_feature_records(broker),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=None if broker.cordoned_directories is None else list(broker.cordoned_directories),
    )


def controller_from(record: RegisterControllerRecord) -> ControllerImage:
    return ControllerImage(
        node_id=record.controller_id,
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints_of(record),
        features=_features_of(record),
        zk_migration_ready=record.zk_migration_ready,
    )


def controller_record(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.node_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=_endpoint_records(controller),
        features=_feature_records(controller),
    )


def _cordoned(
    record: RegisterBrokerRecord | BrokerRegistrationChangeRecord, before: tuple[UUID, ...] | None
) -> tuple[UUID, ...] | None:
    return before if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs)


def _endpoints_of(record: RegisterBrokerRecord | RegisterControllerRecord) -> dict[str, Endpoint]:
    return {e.name: Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points}


def _features_of(record: RegisterBrokerRecord | RegisterControllerRecord) -> dict[str, Feature]:
    return {f.name: Feature(f.min_supported_version, f.max_supported_version) for f in record.features}


def _endpoint_records(node: BrokerImage | ControllerImage) -> list[NodeEndpoint]:
    return [
        NodeEndpoint(name=e.listener, host=e.host, port=e.port, security_protocol=e.security_protocol)
        for e in node.endpoints.values()
    ]


def _feature_records(node: BrokerImage | ControllerImage) -> list[NodeFeature]:
    return [
        NodeFeature(name=name, min_supported_version=f.lowest, max_supported_version=f.newest)
        for name, f in node.features.items()
    ]
