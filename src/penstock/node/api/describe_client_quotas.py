"""The answer to DescribeClientQuotas: the quotas of the entities that a filter matches (KIP-546).

Each component of a filter wants a type in an entity: with one name, with the default, or with any of both. A strict
filter matches entities that have no other types besides.
"""

from collections.abc import Iterable
from typing import Final

from penstock.metadata.quotas.entities import ENTITY_TYPES, IP
from penstock.metadata.security import QuotaEntity
from penstock.node.roles.broker import Broker
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from penstock.protocol.requests.refusals import refusal

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
QUOTAS_PER_STEP: Final = 200


def describe_client_quotas(
    node: Broker | ControllerNode, context: RequestContext, request: DescribeClientQuotasRequest
) -> Steps[DescribeClientQuotasResponse]:
    try:
        wanted = _wanted(request.components)
    except KafkaError as error:
        refused: DescribeClientQuotasResponse = refusal(request, error)
        refused.entries = None
        return refused
    found: dict[QuotaEntity, EntryData] = {}
    quotas = list(node.image.security.client_quotas.items())
    for begin in range(0, len(quotas), QUOTAS_PER_STEP):
        for (entity, key), record in quotas[begin : begin + QUOTAS_PER_STEP]:
            if _matches(dict(entity), wanted, strict=request.strict):
                if entity not in found:
                    found[entity] = EntryData(
                        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
                    )
                found[entity].values.append(ValueData(key=key, value=record.value))
        yield None
    return DescribeClientQuotasResponse(error_message=None, entries=list(found.values()))


def _wanted(components: Iterable[ComponentData]) -> dict[str, ComponentData]:
    """By type. Raises KafkaError."""
    wanted: dict[str, ComponentData] = {}
    for one in components:
        problem = None
        if not one.entity_type:
            problem = "Invalid empty entity type."
        elif one.entity_type in wanted:
            problem = f"Entity type {one.entity_type} cannot appear more than once in the filter."
        elif one.entity_type not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}")
        elif one.match_type not in (EXACT, DEFAULT, SPECIFIED):
            problem = f"Unknown match type {one.match_type}"
        elif (one.match is None) == (one.match_type == EXACT):
            problem = f"Match type {one.match_type} with the name {one.match!r}: an exact match alone has a name"
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
        wanted[one.entity_type] = one
    if IP in wanted and len(wanted) > 1:
        message = "Invalid entity filter component combination: an ip stands alone"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return wanted


def _matches(entity: dict[str, str | None], wanted: dict[str, ComponentData], *, strict: bool) -> bool:
    if strict and len(entity) != len(wanted):
        return False
    return all(
        kind in entity and (one.match_type == SPECIFIED or entity[kind] == one.match) for kind, one in wanted.items()
    )
