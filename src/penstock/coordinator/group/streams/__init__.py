"""Groups of the streams protocol (KIP-1071): members run tasks of a topology, and the coordinator assigns the tasks."""
