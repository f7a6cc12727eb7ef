"""Spark imports `pyspark_penstock` in each of its sessions and workers: that must cost next to nothing."""

import subprocess
import sys

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


def test_the_session_is_found_without_pyspark() -> None:
    program = "import sys; from penstock.pipeline import spark_session; print('pyspark' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"


def test_what_workers_import_before_they_are_forked_starts_no_thread() -> None:
    program = (
        "import sys, threading; from penstock.pipeline.warm_workers import import_all; import_all(); "
        "print(threading.active_count(), *sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    count, *loaded = shown.stdout.split()
    assert count == "1"
    assert "pyspark.worker" in loaded
    assert [name for name in loaded if name in ("pyarrow", "numba", "numpy", "pandas")] == []


def test_few_rows_are_written_without_compiled_code() -> None:
    program = (
        "import sys; import pyarrow as pa; from penstock.pipeline.datasource.writer import EncodeSettings; "
        "from penstock.pipeline.arrow.encode import MOST_PLAIN_ROWS, batches_by_partition; "
        "how = EncodeSettings(0, 1000); rows = pa.table({'value': ['a'] * (MOST_PLAIN_ROWS + 1)}).to_batches()[0]; "
        "few = batches_by_partition(rows.slice(1), 1, 0, how, now_ms=1); print('numba' in sys.modules); "
        "all = batches_by_partition(rows, 1, 0, how, now_ms=1); print('numba' in sys.modules, len(few), len(all))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\nTrue 1 1\n"


def test_a_missing_numba_is_told_with_its_cure() -> None:
    program = "import sys; sys.modules['numba'] = None; import penstock.pipeline.arrow.decode"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "penstock.PipelineError: Records are read and written with numba" in shown.stderr
    assert "pip install 'penstock[connector]'" in shown.stderr
