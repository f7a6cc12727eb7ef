"""Consensus of the metadata quorum: KRaft's pull-based Raft, as a machine without clock, disk or network."""
