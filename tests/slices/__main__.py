"""A table of the longest slices: every API in every version, in lines of Python and in time of the processor."""

from __future__ import annotations

import logging
import sys
from tempfile import TemporaryDirectory

from tests.slices.measured import ask, cases, every, full_node, name_of


def main(many: int) -> None:
    logging.disable()
    found: dict[str, list[float]] = {}
    for counts_lines in (True, False):
        with TemporaryDirectory() as directory, full_node(directory, many, counts_lines=counts_lines) as (node, there):
            for case in cases(many, every):
                ask(node, there, case)
                found.setdefault(name_of(case), []).append(node.longest)
    print(f"the longest slice of each API, asked about {many:,} things\n\n{'lines':>9} {'ms':>7}")
    for name, (lines, seconds) in sorted(found.items(), key=lambda item: -item[1][0]):
        print(f"{lines:9,.0f} {seconds * 1000:7.1f}  {name}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
