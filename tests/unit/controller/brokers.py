"""Brokers of a test: where they lie, and how long one may be silent."""

from uuid import UUID

SESSION_MS = 9000
DISK_1, DISK_2 = UUID(int=1001), UUID(int=1002)
