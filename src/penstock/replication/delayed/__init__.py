"""Records that wait in a partition's log until they are due: what waits, and when it goes."""
