"""One process: its roles, listeners, handlers (one file per API) and the driver of the machines."""
