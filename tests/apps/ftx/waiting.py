# SPDX-License-Identifier: Apache-2.0
"""For tests of whole programs: waits for what they do."""
import time

SECONDS_MAX = 60


def wait_until(condition, what):
    """What condition() answers as soon as that is true; AssertionError(what) after SECONDS_MAX."""
    for _ in range(SECONDS_MAX * 20):
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(what)
