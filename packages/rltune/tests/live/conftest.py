from slurm_fixtures import (
    bed_folder,
    started_testbed,
    started_testbed_of_any_release,
    started_testbed_with_database,
    started_testbed_with_database_of_any_release,
    testbed,
    testbed_of_any_release,
    testbed_with_database,
    testbed_with_database_of_any_release,
)

__all__ = [
    "bed_folder",
    "started_testbed",
    "started_testbed_of_any_release",
    "started_testbed_with_database",
    "started_testbed_with_database_of_any_release",
    "testbed",
    "testbed_of_any_release",
    "testbed_with_database",
    "testbed_with_database_of_any_release",
]
