"""Share of small faults in the source that tests notice: `python -m benchmarks.mutants --count 300 --seed 0`.

A fault is one operator or number in a function: - for +, ** for *, >= for <, `or` for `and`, n + 1 for n. Each is
put into a fork of a session that has collected the quick tests of `_TESTS`; those that call the function run, the
quickest first, until one fails or `--seconds` are over. `--out` keeps the name of the test that failed.
"""

import argparse
import ast
import copy
import gc
import importlib
import json
import os
import pickle
import random
import signal
import sys
import tempfile
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

import reshuffle

_HOME = Path(reshuffle.__file__).parent
_TESTS = ["epoch", "run", "validation", "planning", "schemes", "recipe", "paper", "fuzz"]
_PAIRS = [
    ("Add", "Sub"),
    ("Mult", "Div"),
    ("Lt", "GtE"),
    ("Gt", "LtE"),
    ("Eq", "NotEq"),
    ("And", "Or"),
    ("Pow", "Mult"),
]
_SWAPS = {getattr(ast, one): getattr(ast, other) for a, b in _PAIRS for one, other in ((b, a), (a, b))}


def _fault(node):
    """Return the node with one fault, or None."""
    wrong = copy.deepcopy(node)
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPS:
        wrong.op = _SWAPS[type(node.op)]()
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        wrong.ops[0] = _SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        wrong.value += 1
    else:
        return None
    return ast.copy_location(wrong, node)


class _Faults(ast.NodeTransformer):
    """List the faults of a module, each with the outermost function it is in; or put in the one of a number."""

    def __init__(self, path, chosen=None):
        self.chosen, self.found, self.function = chosen, [], None
        self.tree = ast.fix_missing_locations(self.visit(ast.parse(path.read_text())))

    def visit(self, node):
        """Errors, types of attributes and what runs when a function is defined are left as they are."""
        if isinstance(node, ast.Raise | ast.AnnAssign):
            return node
        if isinstance(node, ast.FunctionDef):
            first, outer = min(each.lineno for each in [node, *node.decorator_list]), self.function
            self.function = outer or (first, node.name)
            node.body = [self.visit(each) for each in node.body]
            self.function = outer
            return node
        wrong = _fault(node) if self.function else None
        if wrong is None:
            return self.generic_visit(node)
        self.found.append((self.function, node.lineno, f"{ast.unparse(node)} -> {ast.unparse(wrong)}"))
        return wrong if len(self.found) - 1 == self.chosen else self.generic_visit(node)


def _put_in(path, number, function):
    """Give the function of the loaded module the code with the fault."""
    codes = [compile(_Faults(path, number).tree, str(path), "exec", dont_inherit=True)]
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    (wrong,) = (code for code in codes if (code.co_firstlineno, code.co_name) == function)
    gc.unfreeze()
    for each in (one for one in gc.get_objects() if type(one) is types.FunctionType):
        code = each.__code__
        if (code.co_filename, code.co_firstlineno, code.co_name) == (str(path), *function):
            each.__code__ = wrong


def _forked(work, *arguments):
    """Return what `work` returns in a fork, or how that ended."""
    with tempfile.NamedTemporaryFile() as file:
        if not (child := os.fork()):
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                Path(file.name).write_bytes(pickle.dumps(work(*arguments)))
            except BaseException as error:
                Path(file.name).write_bytes(pickle.dumps(f"ended by {error!r}"))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        text = Path(file.name).read_bytes()
        return pickle.loads(text) if text else f"ended by signal {status & 127}"


class Mutants:
    """A pytest plugin that tries the faults in place of running the tests."""

    def __init__(self, asked):
        self.asked, self.items, self.reached, self.started = asked, [], {}, time.monotonic()

    def passes(self, place):
        """Run a test and return whether it passes."""
        return not any(report.failed for report in runtestprotocol(self.items[place], log=False))

    def calls(self, places):
        """Return the tests that call each function, with the time they take."""
        reached = {}
        for place in places:
            seen, begin = {}, time.process_time()
            sys.setprofile(lambda frame, event, _, seen=seen: seen.setdefault(id(frame.f_code), frame.f_code))
            good = self.passes(place)
            sys.setprofile(None)
            for code in seen.values() if good else ():
                key = code.co_filename, code.co_firstlineno, code.co_name
                reached.setdefault(key, []).append((time.process_time() - begin, place))
        return reached

    def killer(self, fault):
        """Return the test that notices the fault, or "" if none does."""
        path, number, (function, _, _) = fault
        _put_in(path, number, function)
        left = self.asked.seconds
        for spent, place in sorted(self.reached.get((str(path), *function), [])):
            signal.alarm(int(20 + 10 * spent))
            if not self.passes(place):
                return self.items[place].nodeid
            if (left := left - spent) < 0:
                break
        return ""

    def pytest_runtestloop(self, session):
        """Find out who calls what, draw the faults, try them and print the shares."""
        self.items, every, jobs = session.items, [], self.asked.jobs
        for path in (path for name in self.asked.packages for path in sorted((_HOME / name).rglob("*.py"))):
            importlib.import_module(".".join(["reshuffle", *path.relative_to(_HOME).with_suffix("").parts]))
            every += [(path, number, found) for number, found in enumerate(_Faults(path).found)]
        chosen = random.Random(self.asked.seed).sample(every, self.asked.count)
        table = []
        with ThreadPoolExecutor(jobs) as pool:
            parts = [range(len(self.items))[first::jobs] for first in range(jobs)]
            for part in pool.map(lambda part: _forked(self.calls, part), parts):
                for key, found in part.items():
                    self.reached.setdefault(key, []).extend(found)
            found = pool.map(lambda fault: _forked(self.killer, fault), chosen)
            for (path, _, (_, line, what)), killer in zip(chosen, found, strict=True):
                table.append([str(path.relative_to(_HOME)), line, what, killer])
                print(*table[-1], sep="  ", flush=True)
        for name in [*self.asked.packages, ""]:
            killed = [bool(row[3]) for row in table if row[0].startswith(name)]
            print(f"{name or 'all'}: {sum(killed)} of {len(killed)} killed, {sum(killed) / len(killed):.0%}")
        if self.asked.out:
            Path(self.asked.out).write_text(json.dumps(table, indent=0))
        return True


def main():
    """Collect the tests once and try the faults."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("packages", nargs="*", default=["epoch", "run", "validation", "planning"])
    for name, value in [("count", 300), ("seed", 0), ("seconds", 6), ("jobs", 2)]:
        options.add_argument(f"--{name}", type=int, default=value)
    options.add_argument("--out")
    tests = [f"tests/{name}" for name in _TESTS]
    plugins = [Mutants(options.parse_args())]
    pytest.main(["-qs", "-p", "no:cacheprovider", "-m", "not slow", *tests], plugins=plugins)


if __name__ == "__main__":
    main()
