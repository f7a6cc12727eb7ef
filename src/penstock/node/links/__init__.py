"""From this node to others: what arrives during a hand-over, and the successor that it goes to."""
