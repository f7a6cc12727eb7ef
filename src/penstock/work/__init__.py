"""Two-level work: the broker elects a leader among workers, and the leader spreads tasks by a rule of its own."""
