"""`penstock groups`: where consumer groups are, and moving them."""
