"""Who is to run which tasks: pure functions from members, a topology and what they ran, to targets."""
