"""Stands before the real one on PYTHONPATH, so that nodes run on asyncio's own loop, as where uvloop is missing."""

raise ImportError("not here")
