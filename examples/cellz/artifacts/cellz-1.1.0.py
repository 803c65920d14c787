"""cellz 1.1.0: the daemon that is installed beside this Python, under the name and the settings of this release."""

import os

from fleetctl.cellz.cli import main

os.environ["CELLZ_RELEASE"] = "1.1.0"
os.environ.setdefault("CELLZ_SNAPSHOT_SLOTS", "128")
main()
