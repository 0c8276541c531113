"""Decides what `python -m engine.bench` does: it measures a server that runs."""

import sys

from engine.bench.run import main

sys.exit(main(sys.argv[1:]))
