"""What the metadata log says about users, rights and quotas is kept, though nothing acts on it yet."""

from uuid import UUID

import pytest

from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.metadata.security_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

ADA = UserScramCredentialRecord(name="ada", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096)
RULE = AccessControlEntryRecord(id=UUID(int=4), resource_type=2, resource_name="flights", principal="User:ada")
TOKEN = DelegationTokenRecord(owner="User:ada", requester="User:ada", token_id="t1", max_timestamp=9)
QUOTA = ClientQuotaRecord(
    entity=[EntityData(entity_type="user", entity_name="ada"), EntityData(entity_type="client-id", entity_name=None)],
    key="producer_byte_rate",
    value=1024.0,
)
KEPT: list[MetadataRecord] = [QUOTA, RULE, ADA, TOKEN]


def image_of(*records: MetadataRecord) -> ClusterImage:
    image = ClusterImage()
    for record in records:
        image.apply(record)
    return image


def test_what_is_kept_goes_into_a_snapshot_and_makes_images_differ() -> None:
    image = image_of(*KEPT)
    assert list(image.records()) == KEPT
    assert image_of(*image.records()) == image
    assert image_of(*KEPT[1:]) != image
    assert image_of(*KEPT[1:]).checksum() != image.checksum()


@pytest.mark.parametrize(
    ("kept", "removal"),
    [
        (ADA, RemoveUserScramCredentialRecord(name="ada", mechanism=1)),
        (RULE, RemoveAccessControlEntryRecord(id=UUID(int=4))),
        (TOKEN, RemoveDelegationTokenRecord(token_id="t1")),
        (QUOTA, ClientQuotaRecord(entity=list(reversed(QUOTA.entity)), key="producer_byte_rate", remove=True)),
    ],
)
def test_what_is_removed_is_gone_and_removing_it_again_changes_nothing(
    kept: MetadataRecord, removal: MetadataRecord
) -> None:
    image = image_of(*KEPT)
    copy = image.copy()
    image.apply(removal)
    image.apply(removal)
    assert list(image.records()) == [record for record in KEPT if record is not kept]
    assert list(copy.records()) == KEPT, "a copy is an image of its own"


def test_a_later_record_takes_the_place_of_an_earlier_one() -> None:
    longer = TOKEN.replace(max_timestamp=10)
    image = image_of(*KEPT, longer, QUOTA.replace(value=1.0))
    assert image.security.delegation_tokens == {"t1": longer}
    assert [quota.value for quota in image.security.client_quotas.values()] == [1.0]


@pytest.mark.parametrize(("level", "left_out"), [(10, [ADA, TOKEN]), (13, [TOKEN]), (14, [])])
def test_a_snapshot_has_only_records_that_the_cluster_can_read(level: int, left_out: list[MetadataRecord]) -> None:
    features = FeatureLevelRecord(name="metadata.version", feature_level=level)
    assert list(image_of(features, *KEPT).records()) == [features, *(each for each in KEPT if each not in left_out)]


def test_which_rule_says_something_is_known_while_it_does() -> None:
    image, other = image_of(RULE), RULE.replace(id=UUID(int=5))
    ids = image.security.rule_ids
    assert list(ids.values()) == [UUID(int=4)]
    image.apply(RULE.replace(resource_name="gates"))
    ((binding, rule_id),) = ids.items()
    assert (binding.resource_name, rule_id) == ("gates", UUID(int=4)), "it says something else by now"
    image.apply(RULE)
    image.apply(other)
    assert list(ids.values()) == [UUID(int=5)]
    image.apply(RemoveAccessControlEntryRecord(id=UUID(int=4)))
    assert list(ids.values()) == [UUID(int=5)], "another one says the same"
    image.apply(RemoveAccessControlEntryRecord(id=UUID(int=5)))
    assert ids == {}
