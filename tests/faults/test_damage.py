"""Any file of a graph missing, empty or halved: a right answer or a typed error, never a crash.

A newest version that is missing as a whole cannot be told from one that never was: then a reader
sees the state before, and doctor notices. `make soak` damages every file, and flips bits too.
"""

import json
import os
import subprocess
import sys
from typing import Final

import pytest

STRIDE: Final = int(os.environ.get("OMNIGRAPH_DAMAGE_STRIDE", "9"))


@pytest.mark.slow
def test_no_damaged_file_crashes_a_reader_or_deceives_doctor() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "support.damage", "--flips", "0"]
    told = subprocess.run(
        [*command, "--stride", str(STRIDE)], check=True, timeout=900, stdout=subprocess.PIPE
    )
    report = json.loads(told.stdout)
    assert report["found"] == []
    assert report["kinds"]["typed error"] > 0
    assert report["kinds"]["right"] > 0
