"""Spark imports `pyspark_penstock` in each of its sessions and workers: that must cost next to nothing."""

import os
import subprocess
import sys

import pyarrow as pa
from tests.unit.client.fake_cluster import TOPIC, FakeCluster, served_in_a_thread

from penstock.pipeline.arrow.encode import MOST_PLAIN_ROWS
from penstock.pipeline.arrow.read_columns import HEADERS_TYPE
from penstock.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.api import ApiKey

HEAVY = ("pyarrow", "numba", "numpy", "pandas", "socket", "penstock.client", "yaml", "rich")
PROGRAM = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import pyspark_penstock
assert pyspark_penstock.DefaultSource.name() == "penstock"
print(*(set(sys.modules) - before))
"""


def test_the_data_source_is_found_without_anything_heavy() -> None:
    shown = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    loaded = shown.stdout.split()
    assert "penstock.pipeline.datasource.entry" in loaded
    assert [name for name in loaded if name.startswith(HEAVY)] == []


CONNECTOR = """
import sys

class Missing:
    def find_spec(self, name, *_):
        if name.startswith(("fastavro", "jsonschema_rs", "google.protobuf", "aiohttp", "sqlalchemy", "fsspec")):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
from importlib import import_module
from pkgutil import iter_modules
import penstock.pipeline.datasource
for module in iter_modules(penstock.pipeline.datasource.__path__):
    import_module(f"penstock.pipeline.datasource.{module.name}")
import penstock.pipeline.running.spark_pipelines
"""


def test_the_extra_connector_brings_all_that_it_promises() -> None:
    """The data source, and declarative pipelines, beside a Spark with its own packages."""
    subprocess.run([sys.executable, "-c", CONNECTOR], check=True)


def test_the_session_is_found_without_pyspark() -> None:
    program = "import sys; from penstock.pipeline import spark_session; print('pyspark' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"


def test_what_workers_import_before_they_are_forked_starts_no_thread_but_that_of_an_allocator() -> None:
    program = (
        "import sys; from pathlib import Path; from penstock.pipeline.warm_workers import import_all; import_all(); "
        "places = Path('/proc/self/task').glob('*/comm'); threads = [place.read_text().strip() for place in places]; "
        "print(*[name for name in threads if not name.startswith('python')]); print(*sys.modules)"
    )
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # Spark says so to its workers
    shown = subprocess.run(
        [sys.executable, "-c", program, "pyspark.worker"], env=one_thread, capture_output=True, text=True, check=True
    )
    threads, loaded = (line.split() for line in shown.stdout.splitlines())
    assert set(threads) <= {"jemalloc_bg_thd"}
    assert {"pyspark.worker", "pyarrow", "penstock.pipeline.datasource.writer"} <= set(loaded)
    assert [name for name in loaded if name in ("numba", "pandas")] == []


FORKED = """
import os
import numpy.random
from penstock.pipeline.warm_workers import import_all
import_all()
for _ in range(2):
    if os.fork() == 0:
        print(numpy.random.random(), flush=True)
        os._exit(0)
    os.wait()
"""


def test_workers_that_are_forked_have_random_numbers_of_their_own() -> None:
    shown = subprocess.run([sys.executable, "-c", FORKED, "pyspark.worker"], capture_output=True, text=True, check=True)
    assert len(set(shown.stdout.split())) == 2


FIRST_ROWS = """
import sys
port, rows = int(sys.argv.pop(2)), bytes.fromhex(sys.argv.pop(2))
from penstock.pipeline.warm_workers import import_all
import_all()
from penstock.client.blocking import BlockingCluster, ClusterSettings
from penstock.client.blocking.produce import BlockingProducer
from penstock.protocol import compile_reader, compile_writer
from penstock.protocol.address import Address
compiled, loaded = [], set(sys.modules)
for module, name in ((compile_reader, "compile_reader"), (compile_writer, "compile_writer")):
    setattr(module, name, lambda cls, *_, compiles=getattr(module, name), **how: (
        compiled.append(cls.__name__), compiles(cls, *_, **how))[1])
producer = BlockingProducer(BlockingCluster(ClusterSettings((Address("localhost", port),))))
producer.send({("t", 0): rows})
producer.flush()
print(compiled, sorted(set(sys.modules) - loaded))
"""


def test_workers_that_are_forked_make_nothing_ready_for_their_first_rows() -> None:
    """The messages of a broker as new as the client, and what Python needs for names of hosts."""
    cluster, rows = FakeCluster(), bytes(encode_batch([Record(0, 1_700_000_000_000, None, b"value")]))
    row = TopicProduceResponse(name=TOPIC, partition_responses=[PartitionProduceResponse(index=0)])
    cluster.scripts[ApiKey.PRODUCE] = [lambda _: ProduceResponse(responses=[row])]
    with served_in_a_thread(cluster):
        assert cluster.broker is not None
        port = str(cluster.broker.address.port)
        program = [sys.executable, "-c", FIRST_ROWS, "pyspark.worker", port, rows.hex()]
        shown = subprocess.run(program, capture_output=True, text=True, check=True)
    assert shown.stdout == "[] []\n"


WRITER = """
import sys
import pyarrow as pa
from penstock.pipeline.arrow.encode import MOST_PLAIN_ROWS, batches_by_partition, seal
from penstock.pipeline.arrow.plain_arrays import contents
from penstock.pipeline.datasource.writer import EncodeSettings, ProducerIdentity
rows = pa.ipc.open_stream(sys.stdin.buffer).read_next_batch()
settings = EncodeSettings(0, 1_000_000)
few = batches_by_partition(rows.slice(0, MOST_PLAIN_ROWS), 1, 0, settings, now_ms=1)
contents([b"a", None])
print("numba" in sys.modules, "pandas" in sys.modules, len(few))
all = batches_by_partition(rows, 1, 0, settings, now_ms=1)
from penstock.pipeline.arrow.decode import decode
from penstock.pipeline.arrow.record_spans import AbortedFilter, whole_batches
batch = memoryview(seal(all[0][0], settings, identity=ProducerIdentity(), sequence=-1))
chunks = decode(batch, list(whole_batches(batch)), "a", 0, 0, 10_000, aborted=AbortedFilter([]), include_headers=True)
read = sum(chunk.num_rows for chunk in chunks)
print("numba" in sys.modules, "pandas" in sys.modules, read - MOST_PLAIN_ROWS)
"""


def test_few_rows_are_written_without_compiled_code_and_none_need_pandas() -> None:
    """Each import is paid by every worker that Spark begins: half a second for numba, 0.2 s for pandas."""
    nulls = [None] * (MOST_PLAIN_ROWS - 1)
    columns = {
        "key": pa.array(["a", "b", *nulls]),
        "value": pa.array(["a", "b", *nulls]),
        "headers": pa.array([None, [("b", b"c")], *nulls], HEADERS_TYPE),
        "partition": pa.array([None, 0, *nulls], pa.int32()),
        "timestamp": pa.array([None, 1, *nulls], pa.timestamp("us")),
    }
    rows = pa.RecordBatch.from_pydict(columns)
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_batch(rows)
    sent = stream.getvalue().to_pybytes()
    shown = subprocess.run([sys.executable, "-c", WRITER], input=sent, capture_output=True, check=True)
    assert shown.stdout == b"False False 1\nTrue False 1\n"


def test_a_missing_numba_is_told_with_its_cure() -> None:
    program = "import sys; sys.modules['numba'] = None; import penstock.pipeline.arrow.decode"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "penstock.PipelineError: Records are read and written with numba" in shown.stderr
    assert "pip install 'penstock[connector]'" in shown.stderr
