"""Subjects of a schema registry, and one of them with its latest schema."""

from typing import Any

from penstock.console.query import MAX_ROWS, Query, needed, number, text
from penstock.console.schemas import SchemaRegistry


async def subjects(registry: SchemaRegistry, query: Query) -> dict[str, Any]:
    """`q`: a part of the name; `from`, `limit`: a window."""
    words, first = text(query, "q").lower(), number(query, "from", 0)
    found = [name for name in await registry.subjects() if words in name.lower()]
    shown = found[first:][: number(query, "limit", 100, MAX_ROWS)]
    return {"registry": registry.shown, "total": len(found), "from": first, "subjects": shown}


async def subject(registry: SchemaRegistry, query: Query) -> dict[str, Any]:
    found = await registry.subject(needed(query, "name"))
    return {
        "name": found.name,
        "id": str(found.number),
        "version": str(found.version),
        "kind": found.kind,
        "schema": found.text,
        "versions": [str(one) for one in found.versions],
        "references": found.references,
    }
