"""`make bench`."""

import sys

from tests.bench.run import main

sys.exit(main())
