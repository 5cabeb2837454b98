"""An extra that is missing is named before an import fails."""

import pytest

from omnigraph.errors import ExtraMissing
from omnigraph.extras import require


def test_a_library_that_is_there_is_not_complained_about() -> None:
    require("json", extra="spark")


def test_a_missing_library_names_its_extra_and_is_an_import_error() -> None:
    with pytest.raises(ImportError, match=r"pip install 'omnigraph\[spark\]'") as caught:
        require("no_such_library", extra="spark")
    assert isinstance(caught.value, ExtraMissing)
    assert (caught.value.package, caught.value.extra) == ("no_such_library", "spark")
