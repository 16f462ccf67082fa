"""Docstrings as the site reads them.

They are written for people at a terminal: `|x|` is a norm, `coef_` a name, and examples end them. Sphinx takes the
first for a substitution, the second for a link and the third for one more parameter, unless told otherwise.
"""

import re

HEADING = re.compile(r"-{3,}\s*$")
ARRAY = re.compile(
    r"numpy\.ndarray\[tuple\[(?:typing\.)?Any, \.\.\.\], numpy\.dtype\[[\w.]+(?:\[[^\]]*\])?\]\]"
)
CODE = re.compile(r"(``[^`]+``|`[^`]+`)")


def escaped(text):
    r"""Return text in which nothing but code has a meaning beyond itself.

    >>> print(escaped("the mean of |X b_ - y|^2, as `coef_` has it"))
    the mean of \|X b\_ - y\|^2, as ``coef_`` has it
    """
    parts = CODE.split(text)
    parts[::2] = [re.sub(r"([*|]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"``{part.strip('`')}``" for part in parts[1::2]]
    return "".join(parts)


def plain(lines):
    r"""Return the lines of a docstring with formulas set apart and its examples under a heading of their own.

    >>> plain(["One sentence.", "", ">>> 1 + 1", "2"])
    ['One sentence.', '', 'Examples', '--------', '>>> 1 + 1', '2']
    >>> plain([".. math:: |x|_2^2", "", "is |x|_2 squared."])
    ['.. math:: |x|_2^2', '', 'is \\|x\\|_2 squared.']
    """
    found, named = [], any(line.strip() == "Examples" for line in lines)
    in_section = in_math = False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith(">>>"):
            return [*found, *([] if named else ["Examples", "--------"]), *lines[number:]]
        in_section = in_section or bool(HEADING.match(following))
        in_math = line.startswith(".. math::") or (in_math and (not line or line.startswith(" ")))
        is_entry = in_section and not line.startswith(" ")
        is_block = line.startswith("    ") and not in_section and not in_math
        if is_block and not (found and found[-1].strip()):
            found += ["::", ""]
        verbatim = is_block or is_entry or in_math or HEADING.match(line)
        found.append(line if verbatim else escaped(line))
    return found


def spoken(annotation):
    """Return a type as people would say it: no module, and arrays are arrays.

    >>> import numpy as np
    >>> from numpy.typing import NDArray
    >>> spoken(NDArray[np.float64]), spoken(tuple[float, NDArray[np.float64]]), spoken("Axes | None"), spoken(bool)
    ('array', 'tuple[float, array]', 'Axes | None', 'bool')
    """
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    if getattr(annotation, "__args__", None):
        text = str(annotation)
    text = ARRAY.sub("array", text)
    return re.sub(r"(?:\w+\.)+(\w+)", r"\1", text).replace("NoneType", "None")
