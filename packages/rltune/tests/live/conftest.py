from slurm_fixtures import (
    bed_folder,
    started_testbed,
    started_testbed_of_any_release,
    started_testbed_with_database,
    testbed,
    testbed_of_any_release,
    testbed_with_database,
)

__all__ = [
    "bed_folder",
    "started_testbed",
    "started_testbed_of_any_release",
    "started_testbed_with_database",
    "testbed",
    "testbed_of_any_release",
    "testbed_with_database",
]
