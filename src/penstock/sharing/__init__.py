"""Share groups (KIP-932) at the leader of a partition: whose record is whose, and which sessions fetch them."""
