import pytest

from penstock.protocol.messages.index import APIS
from penstock.protocol.requests.api import KEYS, UNSERVED, AnyApiKey, ApiKey, OwnApiKey, api_of, is_flexible
from penstock.protocol.requests.framing import decode_response, encode_request, encode_response, parse_request_header
from penstock.protocol.requests.own_apis import (
    FIRST_OWN_KEY,
    OWN_APIS,
    ResignControllerRequest,
    ResignControllerResponse,
)
from penstock.protocol.schema import parse_versions


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_api_has_its_classes(key: AnyApiKey) -> None:
    api = api_of(key)
    assert api.request_class.__name__ == api.name + "Request"
    assert api.response_class.__name__ == api.name + "Response"
    for version in api.versions:
        assert version in api.request_class.version_range()
        assert version in api.response_class.version_range()


def test_keys_and_rows_are_the_same() -> None:
    assert sorted(APIS) == sorted(ApiKey)
    assert sorted(OWN_APIS) == sorted(OwnApiKey)
    assert min(OwnApiKey) >= FIRST_OWN_KEY > max(ApiKey), "ours are never Kafka's"


@pytest.mark.parametrize(
    ("served", "newest", "agreed"),
    [
        ((0, 2), None, 2),
        ((0, 99), None, 13),
        ((0, 99), 7, 7),
        ((9, 99), 7, None),
        ((14, 99), None, None),
        (UNSERVED, None, None),
    ],
)
def test_both_sides_agree_on_the_newest_version(
    served: tuple[int, int], newest: int | None, agreed: int | None
) -> None:
    metadata = api_of(ApiKey.METADATA)
    assert metadata.versions == range(14)
    assert metadata.agreed_version(served, newest) == agreed


def test_headers_of_responses() -> None:
    metadata = api_of(ApiKey.METADATA)
    assert (metadata.response_header_version(8), metadata.response_header_version(9)) == (0, 1)
    assert api_of(ApiKey.API_VERSIONS).response_header_version(3) == 0


@pytest.mark.parametrize(
    ("key", "oldest", "newest"),
    [(0, 3, 13), (1, 4, 18), (2, 1, 11), (3, 0, 13), (8, 2, 10), (9, 1, 10), (11, 0, 9), (22, 0, 6), (52, 0, 2)],
)
def test_only_versions_that_are_declared(key: int, oldest: int, newest: int) -> None:
    assert api_of(key).versions == range(oldest, newest + 1)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_what_the_table_says_of_an_api_its_classes_say_too(key: AnyApiKey) -> None:
    api = api_of(key)
    for cls in (api.request_class, api.response_class):
        flexible = parse_versions(cls.__flexible__)
        assert [is_flexible(key, version) for version in api.versions] == [it in flexible for it in api.versions]
    assert not is_flexible(key, api.flexible_from - 1)
    if isinstance(key, OwnApiKey):
        assert api.versions == api.request_class.version_range() == api.response_class.version_range()
    headers = [api.response_header_version(version) for version in api.versions]
    expected = [int(is_flexible(key, version) and key is not ApiKey.API_VERSIONS) for version in api.versions]
    assert headers == expected


@pytest.mark.parametrize(
    ("served", "newest", "agreed"),
    [((3, 3), None, 3), ((4, 4), 3, None), ((0, 12), 13, 12), ((13, 13), 13, 13), ((0, 99), 99, 13), ((0, 0), 0, 0)],
)
def test_versions_agree_at_the_edges(served: tuple[int, int], newest: int | None, agreed: int | None) -> None:
    assert api_of(ApiKey.METADATA).agreed_version(served, newest) == agreed


@pytest.mark.parametrize("key", OwnApiKey, ids=lambda key: key.name)
def test_an_answer_of_our_own_refuses_nothing_unless_it_is_told_to(key: OwnApiKey) -> None:
    field = api_of(key).response_class.__fields__.get("error_code")  # or each thing that is asked for has its own
    assert field is None or field.new_default() == 0


def test_an_unknown_key() -> None:
    assert not is_flexible(9999, 3)
    with pytest.raises(ValueError, match="9999"):
        api_of(9999)


def test_our_own_travel_as_kafkas_do() -> None:
    frame = encode_request(ResignControllerRequest(leader_epoch=3, successor_id=2), 0, 7, "me")
    header, _ = parse_request_header(frame, 4)
    assert (header.api_key, header.correlation_id, header.client_id) == (OwnApiKey.RESIGN_CONTROLLER, 7, "me")
    answer = ResignControllerResponse(error_code=41, error_message="gone")
    sent = encode_response(answer, OwnApiKey.RESIGN_CONTROLLER, 0, 7)
    assert decode_response(OwnApiKey.RESIGN_CONTROLLER, 0, sent[4:]) == (7, answer)
