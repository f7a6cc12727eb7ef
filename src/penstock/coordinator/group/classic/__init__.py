"""Groups of the classic protocol: JoinGroup and SyncGroup, with a leader among the members that assigns."""
