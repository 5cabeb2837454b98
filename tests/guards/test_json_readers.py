"""Everything that comes from outside is read by the one reader that bounds its nesting."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "omnigraph"
STRAY = re.compile(r"\bjson\.loads?\(|\bfrom json import|raw_decode\(|JSONDecoder\(|\.json\(\)")
ALLOWED = {
    "jsontext.py": "the reader itself",
    "server/spool.py": "finds where records end, and leaves it to the load to read them",
    "storage/lance/compact.py": "a method of Lance that writes JSON",
    "storage/lance/handover.py": "a method of Lance that writes JSON",
}


def test_no_module_reads_json_by_itself() -> None:
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if "testing" not in file.parts and STRAY.search(file.read_text(encoding="utf-8"))
    }
    assert found == set(ALLOWED)
