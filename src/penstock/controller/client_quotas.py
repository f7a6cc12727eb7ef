"""AlterClientQuotas (KIP-546): what users, client ids and addresses may take is set and removed, each entity by itself.

Quotas are no protection, so nobody waits for brokers: each goes by a change when its metadata have it.
"""

from penstock.controller.decision import MAX_RECORDS_PER_DECISION, ControllerState, Decision
from penstock.metadata.quotas.entities import check_value, keys_of
from penstock.metadata.records import MetadataRecord
from penstock.metadata.security import QuotaEntity
from penstock.metadata.security_records import ClientQuotaRecord, EntityData
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)
from penstock.protocol.requests.refusals import refusal


def decide_alter_client_quotas(
    state: ControllerState, request: AlterClientQuotasRequest, now_ms: int
) -> Decision[AlterClientQuotasResponse]:
    """An entity that the request names twice is altered as it says first, and refused the second time."""
    changes = sum(len(entry.ops) for entry in request.entries)
    if changes > MAX_RECORDS_PER_DECISION:
        message = f"{changes} quotas are too many to be altered at once: {MAX_RECORDS_PER_DECISION} can be"
        return Decision([], refusal(request, KafkaError(ErrorCode.INVALID_REQUEST, message)))
    records: list[MetadataRecord] = []
    response, seen = AlterClientQuotasResponse(), set[QuotaEntity]()
    for entry in request.entries:
        answer = AlterClientQuotasResponseEntryData(error_message=None)
        answer.entity = [
            AlterClientQuotasResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entry.entity
        ]
        try:
            records += _records(state, entry, seen)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
        response.entries.append(answer)
    return Decision([] if request.validate_only else records, response)


def _records(
    state: ControllerState, entry: AlterClientQuotasRequestEntryData, seen: set[QuotaEntity]
) -> list[MetadataRecord]:
    """Those that change something. Raises KafkaError INVALID_REQUEST."""
    names = {part.entity_type: part.entity_name for part in entry.entity}
    keys = keys_of(names)
    entity: QuotaEntity = tuple(sorted(names.items(), key=lambda part: part[0]))
    if len(names) != len(entry.entity):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid client quota entity: a type stands in it twice")
    if entity in seen:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Ignoring duplicate entity: the request names it twice")
    seen.add(entity)
    if len({op.key for op in entry.ops}) != len(entry.ops):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate quota key: each can be altered once")
    records: list[MetadataRecord] = []
    for op in entry.ops:
        before = state.image.security.client_quotas.get((entity, op.key))
        if not op.remove:
            check_value(op.key, op.value, keys)
        if (before is not None) if op.remove else (before is None or before.value != op.value):
            parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            value = 0.0 if op.remove else op.value
            records.append(ClientQuotaRecord(entity=parts, key=op.key, value=value, remove=op.remove))
    return records
