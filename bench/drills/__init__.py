"""What three nodes must stand: `make drills`. Real processes, real clients, real signals."""
