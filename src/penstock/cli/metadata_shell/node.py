"""The nodes of the tree that `penstock metadata-shell` shows."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Node:
    content: str | None = None
    children: dict[str, "Node"] = field(default_factory=dict)

    def child(self, name: str) -> "Node":
        """The child is made if need be; the name may hold a slash."""
        return self.children.setdefault(name, Node())

    def put(self, path: str, content: str | None = None) -> "Node":
        """The node is made if need be."""
        node = self
        for name in path.split("/"):
            node = node.child(name)
        if content is not None:
            node.content = content
        return node
