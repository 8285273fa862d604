"""`python -m firstsight`: the command line, where the `firstsight` script is not on the path."""

from firstsight.cli.main import main

if __name__ == "__main__":
    main()
