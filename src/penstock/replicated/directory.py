"""The directory of a node: one of Penstock's, with the log in Kafka's format: `penstock dump-log` reads it.

| file                                       | what it is                                                    |
| ------------------------------------------ | ------------------------------------------------------------- |
| `meta.properties`                          | whose directory this is                                       |
| `__cluster_metadata-0/….log`               | the log, in segments                                          |
| `__cluster_metadata-0/….checkpoint`        | snapshots; one of no record names the first voters            |
| `__cluster_metadata-0/quorum-state`        | who led last, and for whom this node voted                    |

The log is named as Kafka's metadata log because Kafka's Fetch, in which nodes pull from each other, knows no other.
"""

import hashlib
import os
from collections.abc import Sequence
from random import Random
from typing import Final
from uuid import UUID

from penstock.log.directories.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from penstock.log.disk import Disk
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.protocol.uuids import random_uuid
from penstock.raft.log_name import METADATA_LOG
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import Endpoint, Quorum, ReplicaKey, Voter
from penstock.replicated.addresses import ServerAddress
from penstock.replicated.options import LISTENER, NodeOptions
from penstock.replicated.snapshot import encode_snapshot

BOOTSTRAP: Final = SnapshotId(0, 0)


def format_directory(options: NodeOptions, disk: Disk, random: Random) -> UUID:
    """The id of the directory; a new one is given its own, and the names of the first voters if this is one of them."""
    path = options.directory
    found = read_meta_properties(disk, path)
    if found is not None and found.directory_id is not None:
        return found.directory_id
    disk.make_directory(path, parents=True)
    disk.sync_directory(os.path.dirname(path) or ".")
    snapshots = StoredSnapshots(disk, f"{path}/{METADATA_LOG}")
    if options.is_first_voter:
        directory_id = _first_directory_id(options.servers, options.me)
        voters = [voter_of(server, _first_directory_id(options.servers, server)) for server in options.servers]
        content = encode_snapshot([], Quorum.of(voters), epoch=0, last_timestamp_ms=0, now_ms=0)
        snapshots.write(BOOTSTRAP, content)
    else:
        directory_id = random_uuid(random)
    # Last: a directory without it is formatted once more.
    properties = MetaProperties(cluster_id=options.cluster_id, node_id=options.me.id, directory_id=directory_id)
    write_meta_properties(disk, path, properties)
    return directory_id


def _first_directory_id(servers: Sequence[ServerAddress], server: ServerAddress) -> UUID:
    """The first voters start apart from each other and yet must know the ids of each other's directories."""
    text = f"{','.join(sorted(map(str, servers)))} {server}"
    return UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)


def voter_of(server: ServerAddress, directory_id: UUID) -> Voter:
    """A server, as the log names it."""
    return Voter(ReplicaKey(server.id, directory_id), (Endpoint(LISTENER, server.host, server.port),))
