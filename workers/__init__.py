"""Programs of the half that runs jobs."""

from bulkdeploy.wiring.garbage import collect_seldom

collect_seldom()  # before the programs load: see there
