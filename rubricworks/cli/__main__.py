"""`python -m rubricworks.cli` is `rubricworks`."""

from rubricworks.cli import main

main()
