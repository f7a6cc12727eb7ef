"""Batches that are written exactly once: prepared by tasks, decided by the driver, carried out by whoever comes.

`deciding.py` is the machine, `names.py` says which transactional id a task may take. Neither does any IO: what they ask
for is done in `datasource/`.
"""
