"""Compare the present answers with the record: `python -m tests.golden [--write] [--only WORD]`."""

import argparse
import sys
import time

from rich.progress import track

from tests.golden import record
from tests.golden.cases import CASES


def main() -> int:
    """Answer all cases, and print what differs from the record and what took long."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the recorded answers")
    parser.add_argument("--only", default="", metavar="WORD", help="cases whose name contains this")
    options = parser.parse_args()
    known = record.read() if record.PATH.exists() else {}
    found, seconds, crashes = {}, {}, []
    chosen = [name for name in CASES if options.only in name]
    for name in track(chosen, "answering"):
        begin = time.process_time()
        try:
            found[name] = record.answered(CASES[name])
        except Exception as error:  # a crash is no answer, and must not be written down
            crashes.append(name)
            print(f"{name}: {type(error).__name__}: {error}")
        seconds[name] = time.process_time() - begin
    differences = {
        name: record.difference(known[name], found[name]) if name in known else "new" for name in found
    }
    for name, words in differences.items():
        if words:
            print(f"{name}: {words}")
    for name in sorted(seconds, key=seconds.__getitem__)[-10:]:
        print(f"{seconds[name]:7.2f} s  {name}")
    different = sum(map(bool, differences.values()))
    taken = sum(seconds.values())
    print(f"{len(chosen)} answers in {taken:.0f} s, {different} differ, {len(crashes)} crashes")
    if options.write:
        kept = {name: answer for name, answer in known.items() if name in CASES}
        record.write({**kept, **found})
        return 0
    return int(different > 0 or bool(crashes))


if __name__ == "__main__":
    sys.exit(main())
