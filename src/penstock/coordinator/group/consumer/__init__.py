"""Groups of the consumer protocol (KIP-848): each member sends heartbeats, and the coordinator assigns.

All that a group is lies in its records, so all is decided ahead: `state.py` is what they add up to, `heartbeat.py` and
`leaving.py` write the next ones, and `group.py` keeps the timers that follow from it. Loaded with the first such group.
"""
