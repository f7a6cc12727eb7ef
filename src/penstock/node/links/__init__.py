"""From this node to others: a connection that is opened when it is needed, and what arrives during a hand-over."""
