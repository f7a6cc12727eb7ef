"""The interface as an OpenAPI document, made of the table of routes."""

import re
from http import HTTPStatus
from typing import Any

from penstock.work.connect.rest.routes import ROUTES, Route


def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.verb.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Workers that share connectors",
            "version": "4",
            "description": "Kafka Connect's REST interface, as `penstock worker` serves it. Every refusal is an Error.",
        },
        "servers": [{"url": "http://127.0.0.1:8083"}],
        "paths": paths,
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
                    "required": ["error_code", "message"],
                }
            }
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.verb.lower()}{re.sub('[^a-z]+', '_', route.path.lower()).rstrip('_')}",
        "parameters": [*map(_in_path, re.findall(r"{(\w+)}", route.path)), *_in_query(route)],
        "responses": {str(status): _response(status) for status in route.statuses},
    }
    if route.body:
        content = {"application/json": {"schema": {"type": "object", "description": route.body}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _in_path(name: str) -> dict[str, Any]:
    kind = "integer" if name == "task" else "string"
    return {"name": name, "in": "path", "required": True, "schema": {"type": kind}}


def _in_query(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": False, "description": text, "schema": {"type": "string"}}
        for name, text in route.parameters.items()
    ]


def _response(status: int) -> dict[str, Any]:
    description = HTTPStatus(status).phrase
    if status < HTTPStatus.BAD_REQUEST:
        return {"description": description}
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": description, "content": {"application/json": {"schema": schema}}}
