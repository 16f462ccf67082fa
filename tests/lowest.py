"""The lowest versions that pyproject.toml allows, one `name==version` per line: `make test-lowest` installs them.

`python -m tests.lowest` prints those that the package cannot do without; names of extras behind it add theirs.
"""

import re
import sys
import tomllib
from pathlib import Path

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+(?:\[[\w.,-]+\])?)(?:>=|==)(?P<version>[\w.]+)")


def lowest(extras: list[str]) -> list[str]:
    """The lowest versions of what the package requires, and of what these extras require.

    >>> [line for line in lowest([]) if line.startswith("cyclopts")]
    ['cyclopts==4.1']
    """
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    found = {}
    for line in [*project["dependencies"], *(line for extra in extras for line in optional[extra])]:
        # An extra may name other extras of the package itself.
        if not line.startswith("reshuffle["):
            requirement = _REQUIREMENT.fullmatch(line)
            assert requirement is not None, f"{line!r} in pyproject.toml has no lowest version"
            found[requirement["name"]] = f"{requirement['name']}=={requirement['version']}"
    return list(found.values())


if __name__ == "__main__":
    print("\n".join(lowest(sys.argv[1:])))
