"""AlterUserScramCredentials (KIP-554): users that log in with SCRAM are made, get other passwords and are removed.

Who is told so knows that no broker in service lets anybody in by what was before, and that sessions which began so have
ended; a repetition that finds nothing left to do waits for that as well.
"""

from collections import Counter
from typing import Final

from penstock.controller.decision import MAX_RECORDS_PER_DECISION, ControllerState, Decision, decided_for_brokers
from penstock.metadata.features import SCRAM_LEVEL, shown_level
from penstock.metadata.records import MetadataRecord
from penstock.metadata.security_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.protocol.requests.refusals import refusal
from penstock.protocol.sasl.scram import BY_NUMBER, MAX_ITERATIONS, MIN_ITERATIONS

MAX_NAME_BYTES: Final = 255
MAX_SALT_BYTES: Final = 1024
"""Of a salt, and of a salted password: Kafka takes any length. A password that is salted has the hash's,
so none logs in where it is another; whoever knows these bytes may. Only who may alter the cluster says what they are.
"""
Change = ScramCredentialDeletion | ScramCredentialUpsertion


def decide_alter_user_scram_credentials(
    state: ControllerState, request: AlterUserScramCredentialsRequest, now_ms: int
) -> Decision[AlterUserScramCredentialsResponse]:
    """Each user is answered once, and refused if the request names it twice."""
    changes: list[Change] = [*request.deletions, *request.upsertions]
    if len(changes) > MAX_RECORDS_PER_DECISION:
        message = f"{len(changes)} credentials are too many to be altered at once: {MAX_RECORDS_PER_DECISION} can be"
        return Decision([], refusal(request, KafkaError(ErrorCode.INVALID_REQUEST, message)))
    times = Counter(change.name for change in changes)
    records: list[MetadataRecord] = []
    results: dict[str, AlterUserScramCredentialsResult] = {}
    for change in changes:
        result = results[change.name] = AlterUserScramCredentialsResult(user=change.name, error_message=None)
        try:
            if times[change.name] > 1:
                message = "A user's credentials can be altered once in a request"
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
            records.append(_record(state, change))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    return decided_for_brokers(state, records, AlterUserScramCredentialsResponse(results=list(results.values())))


def _record(state: ControllerState, change: Change) -> MetadataRecord:
    """Raises KafkaError."""
    level = state.image.metadata_version
    if level < SCRAM_LEVEL:
        needed = f"SCRAM needs metadata.version {shown_level(SCRAM_LEVEL)}, and it is {shown_level(level)}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, needed)
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A user needs a name, this one is empty")
    if change.mechanism not in BY_NUMBER:
        numbers = ", ".join(f"{number} is {one.name}" for number, one in BY_NUMBER.items())
        message = f"The mechanism {change.mechanism} is unknown: {numbers}"
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, message)
    if isinstance(change, ScramCredentialUpsertion):
        return _upserted(change)
    if (change.mechanism, change.name) not in state.image.security.scram_credentials:
        message = f"The user {change.name} has no credential for {BY_NUMBER[change.mechanism].name}"
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
    return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)


def _upserted(change: ScramCredentialUpsertion) -> MetadataRecord:
    mechanism, problem = BY_NUMBER[change.mechanism], None
    if "\0" in change.name or len(change.name.encode()) > MAX_NAME_BYTES:
        problem = f"A user's name has at most {MAX_NAME_BYTES} bytes, and no NUL"
    elif not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
        problem = f"{change.iterations} iterations: {MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed"
    elif not 0 < len(change.salt) <= MAX_SALT_BYTES:
        problem = f"A salt of {len(change.salt)} bytes: 1 to {MAX_SALT_BYTES} are allowed"
    elif not 0 < len(change.salted_password) <= MAX_SALT_BYTES:
        problem = f"A salted password of {len(change.salted_password)} bytes: 1 to {MAX_SALT_BYTES} are allowed"
    if problem is not None:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=change.salt,
        stored_key=mechanism.stored_key(change.salted_password),
        server_key=mechanism.server_key(change.salted_password),
        iterations=change.iterations,
    )
