"""``python -m nvmeof_exporter``."""

import sys

from nvmeof_exporter.cli import main

if __name__ == "__main__":
    sys.exit(main())
