"""`penstock configs --entity-type users`: credentials of SCRAM, as kafka-configs.sh shows and changes them.

    --alter --entity-name ada --add-config 'SCRAM-SHA-512=[iterations=8192,password=…]'

In a file of --add-config-file the password is not seen by others, nor where `penstock users` asks for it.
"""

from collections.abc import Sequence

import click

from penstock.cli.terminal.output import print_lines
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.sasl.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS
from penstock.protocol.secret import Secret
from penstock.protocol.value import Value

PASSWORD, ITERATIONS = "password", "iterations"


class NewPassword(Value):
    mechanism: str
    password: Secret
    iterations: int


async def described_users(admin: Admin, name: str | None) -> dict[str, dict[str, int]]:
    """The iterations of each mechanism by user; none for a user without."""
    try:
        return await admin.users.describe([] if name is None else [name])
    except KafkaError as error:
        if error.code != ErrorCode.RESOURCE_NOT_FOUND:
            raise
        return {}


def alter_user(session: NodeSession, name: str, changes: Sequence[ConfigChange], *, as_json: bool) -> None:
    made = [_parsed(change) for change in changes if change.operation is ConfigOperation.SET]
    gone = [_mechanism(change.name) for change in changes if change.operation is not ConfigOperation.SET]

    async def work(admin: Admin) -> None:
        for mechanism in gone:
            await admin.users.remove(name, mechanism)
        for one in made:
            await admin.users.set_password(name, one.password, one.mechanism, one.iterations)

    session.run(work)
    keys = [change.name for change in changes]
    document = {"entity_type": "users", "entity_name": name, "changed": keys}
    print_lines([f"changed {', '.join(keys)} of user {name}"], document, as_json=as_json)


def _mechanism(key: str) -> str:
    if key not in MECHANISMS:
        raise click.UsageError(f"{key} is no mechanism of SCRAM, which are {', '.join(MECHANISMS)}; alter quotas apart")
    return key


def _parsed(change: ConfigChange) -> NewPassword:
    mechanism, given = _mechanism(change.name), _pairs(change.value or "")
    password, iterations = given.pop(PASSWORD, None), given.pop(ITERATIONS, str(MIN_ITERATIONS))
    if not password or given or not iterations.isdecimal():
        raise click.UsageError(f"{mechanism} has the form [iterations={MIN_ITERATIONS},password=…]")
    if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise click.UsageError(f"{mechanism}: iterations is a number from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return NewPassword(mechanism, Secret(password), int(iterations))


def _pairs(text: str) -> dict[str, str]:
    """A password may have commas and equality signs in it, so it is last, or `iterations` is the next behind it."""
    pairs: dict[str, str] = {}
    rest = text.removeprefix("[").removesuffix("]")
    while rest:
        name, separator, rest = rest.partition("=")
        if not separator:
            break
        value, comma, after = rest.partition(",")
        if name.strip() == PASSWORD:
            head, comma, after = rest.rpartition(f",{ITERATIONS}=")
            value, after = (head, f"{ITERATIONS}={after}") if comma else (rest, "")
        pairs[name.strip()], rest = value, after
    return pairs
