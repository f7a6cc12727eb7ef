"""`penstock dump-log`: print what is in the files of a log directory, with the options of kafka-dump-log.sh.

It reads files and asks no node; the files may be those of any Kafka broker.
"""

from pathlib import PurePath

import click

from penstock.cli.dump.files import ENTRIES, verify_index
from penstock.cli.dump.group_logs import decoder_of
from penstock.cli.dump.records import (
    Decoder,
    decode_control,
    decode_metadata,
    decode_metadata_with_secrets,
    decode_offsets,
    decode_share_states,
    decode_text,
    decode_transactions,
)
from penstock.cli.dump.text import Line, batch_line, print_line, record_line
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import explain
from penstock.log.checkpoint import CorruptCheckpointError
from penstock.log.dump import BrokenTail, DumpedBatch, FileKind, base_offset_of, dump_segment, kind_of
from penstock.log.producer_snapshot import CorruptSnapshotError
from penstock.metadata.snapshot import parse_snapshot_name
from penstock.protocol.errors import DecodeError
from penstock.protocol.value import Value


class Depth(Value, kw_only=True):
    records: bool
    metadata: bool
    max_bytes: int | None
    decoder: Decoder


@click.command(short_help="print what is in a segment file")
@declared
def command(
    files: str = option("The files, with commas: .log, .index, .timeindex, .snapshot, .checkpoint …", required=True),
    print_data_log: bool = option("Print keys and values of the records."),
    deep_iteration: bool = option("Print each record, not only the batches."),
    skip_record_metadata: bool = option("Of records only keys and values; no control records."),
    verify_index_only: bool = option("Only check that indexes agree with their segments."),
    index_sanity_check: bool = option("Only check that indexes are in order."),
    max_bytes: int | None = option("Read no more of a segment than this.", min=1),
    cluster_metadata_decoder: bool = option("The records are those of the metadata log."),
    show_secrets: bool = option("With --cluster-metadata-decoder: passwords and credentials as well."),
    offsets_decoder: bool = option("The records are those of __consumer_offsets."),
    share_group_state_decoder: bool = option("The records are those of __share_group_state."),
    transaction_log_decoder: bool = option("The records are those of __transaction_state."),
    as_json: bool = option("Print JSON, one object per line.", "--json"),
) -> None:
    """Print batches and records of segments, and the entries of indexes, snapshots and checkpoints."""
    if cluster_metadata_decoder + offsets_decoder + share_group_state_decoder + transaction_log_decoder > 1:
        raise click.UsageError("give one decoder")
    decoder: Decoder | None = decode_text if print_data_log else None
    if cluster_metadata_decoder:
        decoder = decode_metadata_with_secrets if show_secrets else decode_metadata
    elif offsets_decoder:
        decoder = decode_offsets
    elif share_group_state_decoder:
        decoder = decode_share_states
    elif transaction_log_decoder:
        decoder = decode_transactions
    depth = Depth(
        records=deep_iteration or decoder is not None,
        metadata=not skip_record_metadata,
        max_bytes=max_bytes,
        decoder=decoder or (lambda record: {}),
    )
    checking = verify_index_only or index_sanity_check
    paths = [part.strip() for part in files.split(",") if part.strip()]
    kinds = {path: _kind(path) for path in paths}
    sound = [_dump_or_check(path, kind, checking, verify_index_only, depth, as_json) for path, kind in kinds.items()]
    if not all(sound):
        raise click.exceptions.Exit(1)


def _kind(path: str) -> FileKind:
    kind = kind_of(path)
    if kind is None:
        raise click.UsageError(f"--files: {path!r} is none of the files of a log directory")
    return kind


def _dump_or_check(
    path: str, kind: FileKind, checking: bool, against_segment: bool, depth: Depth, as_json: bool
) -> bool:
    """Returns whether the file could be read and is sound."""
    try:
        if checking and kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            return verify_index(path, kind, as_json, against_segment=against_segment)
        return _dump(path, kind, depth, as_json)
    except BrokenPipeError:
        raise
    except OSError as error:
        say(explain(error), err=True)
    except (CorruptSnapshotError, CorruptCheckpointError) as error:
        say(f"{path}: {error}", err=True)
    return False


def _dump(path: str, kind: FileKind, depth: Depth, as_json: bool) -> bool:
    """Returns whether the file is sound."""
    if not as_json:
        say(f"Dumping {path}")
    if kind != FileKind.SEGMENT:
        for line in ENTRIES[kind](path):
            print_line(line, as_json)
        return True
    if not as_json:
        say(_heading(path))
    if depth.decoder is decode_text:
        depth = depth.replace(decoder=decoder_of(path) or decode_text)
    sound = True
    for part in dump_segment(path, max_bytes=depth.max_bytes):
        if isinstance(part, BrokenTail):
            print_line(Line("broken", {"position": part.position, "size": part.size, "problem": part.problem}), as_json)
            sound = False
            continue
        sound &= part.is_valid
        print_line(batch_line(part), as_json)
        if depth.records:
            sound &= _dump_records(part, depth, as_json)
    return sound


def _heading(path: str) -> str:
    """Says which part of the log the file stands for, if it is a segment or a snapshot."""
    snapshot = parse_snapshot_name(PurePath(path).name)
    if snapshot is None:
        return f"Log starting offset: {base_offset_of(path)}"
    return f"Snapshot end offset: {snapshot[0]}, epoch: {snapshot[1]}"


def _dump_records(batch: DumpedBatch, depth: Depth, as_json: bool) -> bool:
    decoder = decode_control if batch.header.is_control else depth.decoder
    try:
        for index, record in enumerate(batch.records()):
            decoded = decoder(record)
            if depth.metadata:
                print_line(record_line(batch.header, index, record, decoded), as_json)
            elif decoded and not batch.header.is_control:
                print_line(Line("record", decoded), as_json)
    except DecodeError as error:
        print_line(Line("broken", {"position": batch.position, "problem": str(error)}), as_json)
        return False
    return True
