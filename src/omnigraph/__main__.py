"""`python -m omnigraph`: the command, where its script is not on the path."""

from omnigraph.cli.warm.client import main

if __name__ == "__main__":
    main()
