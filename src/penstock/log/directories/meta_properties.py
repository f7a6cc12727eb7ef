"""`meta.properties`: to which cluster and node a log directory belongs (KIP-631, KIP-858).

Version 1 holds `cluster.id`, `node.id` and `directory.id`; version 0, which old brokers wrote, holds `broker.id`
instead of `node.id`.
"""

from uuid import UUID

from penstock.log.directories.errors import BadMetaPropertiesError
from penstock.log.disk import Disk
from penstock.log.names import META_PROPERTIES
from penstock.protocol.uuids import uuid_from_text, uuid_to_text
from penstock.protocol.value import Value

VERSION = 1


class MetaProperties(Value, kw_only=True):
    cluster_id: str
    node_id: int
    directory_id: UUID | None


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """None if the directory has none yet; raises BadMetaPropertiesError."""
    content = disk.read_file(f"{directory}/{META_PROPERTIES}")
    if content is None:
        return None
    properties = parse_properties(content.decode(errors="replace"))
    version = properties.get("version")
    if version not in {"0", "1"}:
        raise BadMetaPropertiesError(directory, f"has version {version}, which is not 0 or 1")
    node_key = "node.id" if version == "1" else "broker.id"
    for key in ("cluster.id", node_key):
        if not properties.get(key):
            raise BadMetaPropertiesError(directory, f"lacks {key}")
    if not properties[node_key].isdecimal():
        raise BadMetaPropertiesError(directory, f"has {node_key}={properties[node_key]}, which is not a number")
    return MetaProperties(
        cluster_id=properties["cluster.id"],
        node_id=int(properties[node_key]),
        directory_id=_directory_id(directory, properties.get("directory.id")),
    )


def _directory_id(directory: str, text: str | None) -> UUID | None:
    if text is None:
        return None
    try:
        return uuid_from_text(text)
    except ValueError:
        raise BadMetaPropertiesError(directory, f"has directory.id={text}, which is not a uuid") from None


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties) -> None:
    """Version 1, durably; raises OSError."""
    lines = [f"cluster.id={properties.cluster_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={uuid_to_text(properties.directory_id)}")
    lines += [f"node.id={properties.node_id}", f"version={VERSION}", ""]
    disk.replace_file(f"{directory}/{META_PROPERTIES}", "\n".join(lines).encode(), durable=True)


def parse_properties(text: str) -> dict[str, str]:
    """Lines that begin with # or ! are comments."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#!")
    return {key.strip(): value.strip() for key, _, value in pairs}
