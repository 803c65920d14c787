"""cellz 1.0.0: the daemon that is installed beside this Python, under the name and the settings of this release."""

import os

from fleetctl.cellz.cli import main

os.environ["CELLZ_RELEASE"] = "1.0.0"
os.environ.setdefault("CELLZ_SNAPSHOT_SLOTS", "256")
main()
