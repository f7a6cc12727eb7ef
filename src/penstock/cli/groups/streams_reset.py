"""`penstock streams-application-reset`: let an application of Kafka Streams begin anew.

It has the options of kafka-streams-application-reset.sh, and says the same. The state that each instance has on its own
disk is the application's to clean up.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import click

from penstock.cli.groups.reset import ResetTarget, check_empty, positions
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import BrokerSession
from penstock.client.admin import Admin
from penstock.client.new_positions import Positions
from penstock.client.values import LATEST, OffsetAndMetadata
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

INTERNAL: Final = re.compile(
    ".*(-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic)"
    r"|.+-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic"
)
"""How Kafka Streams calls the topics that it makes for itself, behind the application's id and a dash."""
CURE: Final = "stop all instances of the application first; --force puts out members that are gone"
REASON: Final = "the application is reset"


class Topics(Value, kw_only=True):
    input_topics: str | None = option("Topics that the application reads, with commas: it begins at --to-earliest.")
    intermediate_topics: str | None = option("Topics that it writes and reads, with commas: it goes on at their end.")
    internal_topics: str | None = option("Of the topics that are its own, delete only these, with commas.")

    @property
    def read(self) -> list[str]:
        return _listed(self.input_topics)

    @property
    def passed_over(self) -> list[str]:
        return _listed(self.intermediate_topics)


@click.command(short_help="let an application of Kafka Streams begin anew")
@declared
def command(
    session: BrokerSession,
    *,
    application_id: str = option("The application's id, which is its group.", required=True),
    topics: Topics,
    target: ResetTarget,
    force: bool = option("Put members out that are still in the group."),
    dry_run: bool = option("Only say what would be done."),
) -> None:
    """Move an application of Kafka Streams back to the beginning of its input, and delete the topics that are its own.

    Stop all its instances first, and let each clean up its local state (KafkaStreams.cleanUp) before it starts again.
    """
    if not target.given():
        target = target.replace(to_earliest=True)
    target.check()

    async def work(admin: Admin) -> bool:
        await _empty(admin, application_id, force=force, dry_run=dry_run)
        known = await admin.topics.names()
        if dry_run:
            say("----Dry run displays the actions which will be performed when running Streams Reset Tool----")
        is_whole = await _move(admin, application_id, topics, target, known, dry_run=dry_run)
        await _delete(admin, application_id, topics, known, dry_run=dry_run)
        return is_whole

    if not session.run(work):
        raise click.exceptions.Exit(1)


async def _empty(admin: Admin, group_id: str, *, force: bool, dry_run: bool) -> None:
    """Raises click.ClickException if the group has members, and may not be made to have none."""
    if not force or dry_run:
        await check_empty(admin, group_id, CURE)
        return
    try:
        members = (await admin.groups.describe(group_id)).members
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return
    if members:
        say(f"Force deleting all active members in the group: {group_id}")
        await admin.groups.remove_members(group_id, REASON)


async def _move(
    admin: Admin, group_id: str, topics: Topics, target: ResetTarget, known: Collection[str], *, dry_run: bool
) -> bool:
    """Whether all topics are there."""
    read, passed_over = topics.read, topics.passed_over
    if not read and not passed_over:
        say("No input or intermediate topics specified. Skipping seek.")
        return True
    if read:
        say(f"Reset-offsets for input topics {_list(read)}")
    if passed_over:
        say(f"Seek-to-end for intermediate topics {_list(passed_over)}")
    for kind, names in (("input", read), ("intermediate", passed_over)):
        if missing := [name for name in names if name not in known]:
            say(f"Following {kind} topics are not found, skipping them", *(f"Topic: {name}" for name in missing))
    offsets = await _of_input(admin, group_id, [name for name in read if name in known], target)
    offsets |= await _of_intermediate(admin, group_id, [name for name in passed_over if name in known])
    if offsets and not dry_run:
        await admin.groups.set_offsets(group_id, {place: OffsetAndMetadata(n) for place, n in offsets.items()})
    say("Done.")
    return set(read + passed_over) <= set(known)


async def _of_input(admin: Admin, group_id: str, names: Sequence[str], target: ResetTarget) -> Positions:
    if not names:
        return {}
    found = await positions(admin, group_id, names, target)
    offsets = {place: offset for place, offset in sorted(found.items()) if place.topic in names}
    say(
        f"Following input topics offsets will be reset to (for consumer group {group_id})",
        *(f"Topic: {place.topic} Partition: {place.partition} Offset: {offset}" for place, offset in offsets.items()),
    )
    return offsets


async def _of_intermediate(admin: Admin, group_id: str, names: Sequence[str]) -> Positions:
    if not names:
        return {}
    say(
        f"Following intermediate topics offsets will be reset to end (for consumer group {group_id})",
        *(f"Topic: {name}" for name in names),
    )
    described = await admin.topics.describe(names)
    partitions = [row.topic_partition for topic in described for row in topic.partitions.values()]
    return {place: end.offset for place, end in (await admin.offsets(dict.fromkeys(partitions, LATEST))).items()}


async def _delete(admin: Admin, application_id: str, topics: Topics, known: Sequence[str], *, dry_run: bool) -> None:
    """Raises click.ClickException for a topic that is not the application's own."""
    others = {*topics.read, *topics.passed_over}
    own = [name for name in known if name not in others and is_internal(name, application_id)]
    chosen = _listed(topics.internal_topics)
    if foreign := [name for name in chosen if name not in own]:
        raise click.ClickException(
            f"--internal-topics: {_list(foreign)} are no topics of {application_id} itself; those are {_list(own)}"
        )
    say(f"Deleting {'specified' if chosen else 'inferred'} internal topics {_list(chosen or own)}")
    if not dry_run:
        for name in chosen or own:
            await admin.topics.delete(name)
    say("Done.")


def is_internal(name: str, application_id: str) -> bool:
    return name.startswith(f"{application_id}-") and INTERNAL.fullmatch(name) is not None


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"
