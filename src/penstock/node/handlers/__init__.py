"""One file per API, named after it. `MODULES` lists them all; what is not listed is not served."""

MODULES: tuple[str, ...] = (
    # in alphabetical order, one per line
)
