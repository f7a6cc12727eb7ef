"""`penstock acls`: access rules are shown, made and removed, explained, suggested and kept in a file."""
