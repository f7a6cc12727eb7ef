"""The cluster's metadata as a tree: `/image` as Kafka's shell shows it, and the nodes that ZooKeeper used to have.

| path                           | content                                                            |
| ------------------------------ | ------------------------------------------------------------------ |
| `/controller`                  | who decides about metadata, and since when; only if the log has it |
| `/controller_epoch`            | how many controllers there have been                               |
| `/brokers/ids/N`               | a broker that is not fenced                                        |
| `/brokers/topics/T`            | a topic's partitions; below it the state of each                   |
| `/config/topics/T`, `/brokers` | what was set                                                       |
| `/admin/delete_topics`         | always empty: a deletion is one record                             |
| `/cluster/id`                  | the cluster's id                                                   |
| `/latest_producer_id_block`    | the block of producer ids that was handed out last                 |
| `/isr_change_notification`, `/log_dir_event_notification` | what does their work without ZooKeeper   |
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from penstock import __version__
from penstock.cli.metadata_shell.node import Node
from penstock.cli.metadata_shell.security import put_security
from penstock.cli.metadata_shell.source import MetadataView
from penstock.cli.terminal.lines import printable_json
from penstock.metadata.brokers import BrokerImage, ControllerImage, Endpoint
from penstock.metadata.configs.resources import is_sensitive
from penstock.metadata.configs.secrets import REDACTED
from penstock.metadata.image import NOBODY, ClusterImage
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.metadata.topics import PartitionImage, TopicImage
from penstock.protocol.uuids import uuid_to_text

Configs = Mapping[ConfigResource, Mapping[str, str]]
PRODUCER_ID_BLOCK = 1000
SUCCESSORS = {
    "isr_change_notification": (
        "the leader of a partition asks the active controller (AlterPartition); the change is a PartitionChangeRecord, "
        "which all brokers follow: isr and partitionEpoch in /image/topics"
    ),
    "log_dir_event_notification": (
        "a broker names its directories that failed in its heartbeats; the change is a BrokerRegistrationChangeRecord, "
        "which all brokers follow: directories in /image/cluster/brokers"
    ),
}
"""What replaces the nodes of ZooKeeper through which brokers woke the controller."""
PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


def build_tree(view: MetadataView, *, show_secrets: bool = False) -> Node:
    root = Node()
    configs = {
        resource: {
            key: REDACTED if is_sensitive(resource.resource_type, key) and not show_secrets else settings[key]
            for key in sorted(settings)
        }
        for resource, settings in sorted(view.image.configs.items())
    }
    _image(root.put("image"), view, configs)
    root.put("local/version", __version__)
    _controller(root, view)
    _brokers(root, view.image)
    _configs(root, configs)
    root.put("admin/delete_topics")
    root.put("cluster/id", _json({"version": "1", "id": view.image.cluster_id}))
    for name, successor in SUCCESSORS.items():
        root.put(name, successor)
    root.put("latest_producer_id_block")
    if view.producer_ids is not None:
        end = view.producer_ids.next_producer_id
        block = {"version": 1, "broker": view.producer_ids.broker_id}
        block_range = {"block_start": str(max(0, end - PRODUCER_ID_BLOCK)), "block_end": str(end - 1)}
        root.put("latest_producer_id_block", _json(block | block_range))
    return root


def _controller(root: Node, view: MetadataView) -> None:
    image = view.image
    if image.controller_id != NOBODY:
        content = {"version": 1, "brokerid": image.controller_id, "timestamp": str(view.elected_ms)}
        root.put("controller", _json(content))
    root.put("controller_epoch", str(image.controller_epoch))


def _brokers(root: Node, image: ClusterImage) -> None:
    root.put("brokers/ids")
    root.put("brokers/topics")
    for broker in image.brokers.values():
        if not broker.fenced:
            root.put(f"brokers/ids/{broker.node_id}", _json(_znode_of_broker(broker)))
    for name in sorted(image.topics):
        topic = image.topics[name]
        node = root.put(f"brokers/topics/{name}", _json(_znode_of_topic(topic)))
        for index, partition in topic.partitions.items():
            state = {
                "controller_epoch": image.controller_epoch,
                "leader": partition.leader,
                "version": 1,
                "leader_epoch": partition.leader_epoch,
                "isr": partition.isr,
            }
            node.put(f"partitions/{index}/state", _json(state))


def _znode_of_broker(broker: BrokerImage) -> dict[str, object]:
    endpoints = list(broker.endpoints.values())
    first = endpoints[0] if endpoints else Endpoint("", "", -1)
    return {
        "version": 5,
        "host": first.host,
        "port": first.port,
        "endpoints": [f"{e.listener}://{e.host}:{e.port}" for e in endpoints],
        "listener_security_protocol_map": {e.listener: _protocol(e) for e in endpoints},
        "rack": broker.rack,
    }


def _znode_of_topic(topic: TopicImage) -> dict[str, object]:
    partitions = topic.partitions.items()
    return {
        "version": 3,
        "topic_id": uuid_to_text(topic.topic_id),
        "partitions": {str(index): partition.replicas for index, partition in partitions},
        "adding_replicas": {str(i): p.adding_replicas for i, p in partitions if p.adding_replicas},
        "removing_replicas": {str(i): p.removing_replicas for i, p in partitions if p.removing_replicas},
    }


def _configs(root: Node, configs: Configs) -> None:
    kinds = {ResourceType.TOPIC: "topics", ResourceType.BROKER: "brokers", ResourceType.GROUP: "groups"}
    for kind in kinds.values():
        root.put(f"config/{kind}")
    for resource, settings in configs.items():
        if resource.resource_type in kinds:
            name = resource.name or "<default>"
            content = _json({"version": 1, "config": settings})
            root.put(f"config/{kinds[resource.resource_type]}/{name}", content)


def _image(node: Node, view: MetadataView, configs: Configs) -> None:
    image = view.image
    for path in ("cluster/brokers", "cluster/controllers", "configs", "topics/byId", "topics/byName"):
        node.put(path)
    for node_id in sorted(image.brokers):
        node.put(f"cluster/brokers/{node_id}", _broker(image.brokers[node_id]))
    for node_id in sorted(image.controllers):
        node.put(f"cluster/controllers/{node_id}", _registered_controller(image.controllers[node_id]))
    for resource, settings in configs.items():
        name = f"{resource.resource_type.name}:{resource.name}"
        for key, value in settings.items():
            node.put(f"configs/{name}/{key}", value)
    for name, level in sorted(image.features.items()):
        node.put(f"features/finalizedVersions/{name}", str(level))
    put_security(node, image.security)
    node.put("producerIds/nextProducerId", str(image.next_producer_id))
    when = datetime.fromtimestamp(max(view.last_timestamp_ms, 0) / 1000, UTC).isoformat(timespec="milliseconds")
    node.put("provenance", f"offset {image.offset}, epoch {image.controller_epoch}, time {when}")
    for name in sorted(image.topics):
        topic = image.topics[name]
        topic_id = uuid_to_text(topic.topic_id)
        for place in (f"topics/byId/{topic_id}", f"topics/byName/{name}"):
            for index, partition in topic.partitions.items():
                node.put(f"{place}/{index}", _partition(partition))
            node.put(f"{place}/id", topic_id)
            node.put(f"{place}/name", name)


def _partition(partition: PartitionImage) -> str:
    recovery = "RECOVERING" if partition.leader_recovery_state else "RECOVERED"
    return (
        f"PartitionRegistration(replicas={_list(partition.replicas)}, "
        f"directories={_list(map(uuid_to_text, partition.directories))}, isr={_list(partition.isr)}, "
        f"removingReplicas={_list(partition.removing_replicas)}, addingReplicas={_list(partition.adding_replicas)}, "
        f"elr={_list(partition.eligible_leader_replicas)}, lastKnownElr={_list(partition.last_known_elr)}, "
        f"leader={partition.leader}, leaderRecoveryState={recovery}, leaderEpoch={partition.leader_epoch}, "
        f"partitionEpoch={partition.partition_epoch})"
    )


def _broker(broker: BrokerImage) -> str:
    cordoned = broker.cordoned_directories
    shown = "null" if cordoned is None else _list(map(uuid_to_text, cordoned))
    return (
        f"BrokerRegistration(id={broker.node_id}, epoch={broker.epoch}, "
        f"incarnationId={uuid_to_text(broker.incarnation_id)}, {_registered(broker)}, "
        f"rack={f'Optional[{broker.rack}]' if broker.rack is not None else 'Optional.empty'}, "
        f"fenced={_bool(broker.fenced)}, inControlledShutdown={_bool(broker.in_controlled_shutdown)}, "
        f"isMigratingZkBroker=false, directories={_list(map(uuid_to_text, broker.directories))}, "
        f"cordonedDirectories={shown})"
    )


def _registered_controller(controller: ControllerImage) -> str:
    return (
        f"ControllerRegistration(id={controller.node_id}, "
        f"incarnationId={uuid_to_text(controller.incarnation_id)}, "
        f"zkMigrationReady={_bool(controller.zk_migration_ready)}, {_registered(controller)})"
    )


def _registered(node: BrokerImage | ControllerImage) -> str:
    listeners = ", ".join(
        f"Endpoint(listenerName='{e.listener}', securityProtocol={_protocol(e)}, host='{e.host}', port={e.port})"
        for e in node.endpoints.values()
    )
    features = ", ".join(f"{name}: {levels.lowest}-{levels.newest}" for name, levels in sorted(node.features.items()))
    return f"listeners=[{listeners}], supportedFeatures={{{features}}}"


def _protocol(endpoint: Endpoint) -> str:
    return PROTOCOLS.get(endpoint.security_protocol, str(endpoint.security_protocol))


def _list(items: Iterable[object]) -> str:
    return "[" + ", ".join(map(str, items)) + "]"


def _bool(value: bool) -> str:
    return str(value).lower()


def _json(content: object) -> str:
    return printable_json(content, separators=(",", ":"))
