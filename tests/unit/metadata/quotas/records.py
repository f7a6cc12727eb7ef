"""Records of quotas in short."""

from penstock.metadata.security_records import ClientQuotaRecord, EntityData


def quota(key: str, value: float | None, **names: str | None) -> ClientQuotaRecord:
    """For an entity by names: user, client_id, ip; None is the default. A value of None removes the quota."""
    entity = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in names.items()]
    return ClientQuotaRecord(entity=entity, key=key, value=value or 0.0, remove=value is None)
