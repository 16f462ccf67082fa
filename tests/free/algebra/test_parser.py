"""Expressions and laws from text: all that is meant can be said, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshuffle import free
from reshuffle.free import parser
from tests.looped import for_all

LAWS = {"x": free.Semicircle(1.0), "y": free.MarchenkoPastur(0.5, 0.2)}


def family():
    return free.variables(*LAWS.values(), names=list(LAWS))


@for_all(
    "text, meaning",
    [
        ("x", lambda x, y: x),
        ("x + y - (x*y + y*x)/2", lambda x, y: x + y - (x * y + y * x) / 2),
        ("2*x - 3", lambda x, y: 2 * x - 3),
        ("-x*y*-1", lambda x, y: x * y),
        ("-x**2", lambda x, y: -(x**2)),
        ("(x + y)^3", lambda x, y: (x + y) ** 3),
        ("x - y - x", lambda x, y: x - y - x),
        ("8 / 4 / 2 * x", lambda x, y: 1 * x),
        ("(1 + x**2)**-1", lambda x, y: (1 + x**2) ** -1),
        ("x / (2 + y)", lambda x, y: x / (2 + y)),
        ("1j * (x*y - y*x)", lambda x, y: 1j * (x * y - y * x)),
        ("1e-1 x".replace(" ", "*"), lambda x, y: 0.1 * x),
        (".5 * + x", lambda x, y: 0.5 * x),
        ("2**3*x", lambda x, y: 8 * x),
        ("x**0 + y", lambda x, y: 1 + y),
    ],
)
def test_what_a_text_means(text, meaning):
    assert repr(free.parse(text, **LAWS)) == repr(meaning(*family()) + 0)


@for_all(
    "text, law",
    [
        ("mp(0.5, 0.2)", free.MarchenkoPastur(0.5, 0.2)),
        ("MarchenkoPastur(ratio=0.5, variance=0.2)", free.MarchenkoPastur(0.5, 0.2)),
        ("marchenko_pastur(0.5, variance=2)", free.MarchenkoPastur(0.5, 2)),
        ("sc(2, -1)", free.Semicircle(2, -1)),
        ("Semicircle()", free.Semicircle()),
        ("poisson(0.5, -2)", free.FreePoisson(0.5, -2)),
        ("FreePoisson(0.5)", free.FreePoisson(0.5)),
        ("projection(0.3)", free.Projection(0.3)),
        ("Bernoulli(0.5, low=-1, high=2)", free.Bernoulli(0.5, -1, 2)),
        ("arcsine(-2, 2)", free.Arcsine(-2, 2)),
        ("uniform(0, 1)", free.Uniform(0, 1)),
        ("discrete([0, 1], [0.25, 0.75])", free.Discrete([0, 1], [0.25, 0.75])),
        ("discrete([1, -2.5, 3], weights=[0.5, 0.25, 0.25])", free.Discrete([1, -2.5, 3], [0.5, 0.25, 0.25])),
        ("wachter(2, 3)", free.Wachter(2, 3)),
        ("KestenMcKay(3)", free.KestenMcKay(3)),
        ("affine(mp(0.5), 2, -1)", 2 * free.MarchenkoPastur(0.5) - 1),
        ("2*mp(0.5) - 1", 2 * free.MarchenkoPastur(0.5) - 1),
    ],
)
def test_every_law_has_its_names(text, law):
    found = parser.parse_law(text)
    assert type(found) is type(law)
    assert found.moments(4).tolist() == law.moments(4).tolist()


def test_every_law_that_numbers_describe_can_be_named():
    described = {type(law) for law in ()} | set(parser.LAWS.values())
    # Of functions, of an expression, and of other laws.
    others = {free.FromCauchy, free.FromDensity, free.Spectrum, free.Convolved, free.Corner, free.Pushforward}
    everything = {getattr(free, name) for name in free.__all__ if isinstance(getattr(free, name), type)}
    laws = {kind for kind in everything if issubclass(kind, free.Law) and kind is not free.Law}
    assert described == laws - others
    for kind in described:
        assert parser.LAWS[kind.__name__.lower()] is kind


@for_all(
    "text, message",
    [
        ("", "invalid syntax"),
        ("x +", "invalid syntax"),
        ("(x", "was never closed"),
        ("x y", "invalid syntax, near position"),
        ("2x", "invalid decimal literal"),
        ("z", 'one of the variables x, y, but there is "z"'),
        ("x ** y", "exponents must be whole numbers"),
        ("x ** 0.5", "exponents must be whole numbers"),
        ("x ** 99", "exponents must be whole numbers between -16 and 16"),
        ("2 ** 9 ** 9 ** 9 * x", "exponents must be whole numbers"),
        ("x / 0", "divides by 0"),
        ("(x - x)**-1", "divides by 0"),
        ("3", "must have a variable in it"),
        ("(x + y)**16", "at most 2000 terms"),
        ("1e999 * x", "beyond the range"),
        ("9" * 400 + " * x", "beyond the range"),
        ("1e100 * 1e100 * x", "beyond 1e\\+150"),
        ("x.real", 'there is "x.real"'),
        ("x.__class__", 'there is "x.__class__"'),
        ("__import__('os').system('ls')", 'there is "\'"'),
        ("__import__(x)", 'there is "__import__'),
        ("eval(x)", r'there is "eval\(x\)"'),
        ("sqrt(x, y)", "too many positional arguments"),
        ("sqrt(-2) * x", "a number >= 0"),
        ("lambda: x", "there is"),
        ("True * x", 'there is "True"'),
        ("x; y", 'there is ";"'),
        ("x := y", 'there is ":"'),
        ("x\n+\0y", "there is"),
        ("\u0445 + x", "there is"),
        ("(" * 100 + "x" + ")" * 100, "must not nest deeper"),
        ("-" * 1990 + "x", "must not nest deeper"),
        ("x" + " + x" * 1000, "at most 2000 characters"),
    ],
)
def test_what_is_not_an_expression(text, message):
    with pytest.raises(ValueError, match=message):
        free.parse(text, **LAWS)


@for_all(
    "definitions, message",
    [
        ([], "needs the law of every variable"),
        (["x=sc()", "x=mp(1)"], "define x twice"),
        (["x"], "expected the name of a variable, = and a law"),
        (["=sc()"], "expected the name of a variable"),
        (["x=gauss(1)"], r"expected a law \(affine, arcsine, .*there is \"gauss\(1\)\""),
        (["x=sc"], r'there is "sc"'),
        (["x=3"], "expected a law"),
        (["x=sc(1"], "was never closed"),
        (["x=sc(1, 2, 3)"], "too many positional arguments"),
        (["x=sc(width=2)"], "unexpected keyword argument 'width'"),
        (["x=sc(variance=1, 2)"], "positional argument follows keyword argument"),
        (["x=sc(**a)"], "there is"),
        (["x=sc(a)"], 'there is "a"'),
        (["x=mp(-1)"], "ratio must be a finite real number"),
        (["x=mp()"], "missing a required argument"),
        (["x=mp(1)*mp(2)"], "factor must be"),
        (["x=discrete([])"], "at least one number"),
        (["x=discrete([1, [2]])"], "there is"),
        (["x=sc(__import__('os'))"], "there is"),
        (["x=sc(open('f'))"], "there is"),
        (["x=" + "affine(" * 60], "must not nest deeper"),
    ],
)
def test_what_is_not_a_law(definitions, message):
    with pytest.raises((ValueError, TypeError), match=message):
        parser.parse_definitions(definitions)


def test_words_of_python_and_long_sums_and_elements_are_no_obstacle():
    assert repr(free.parse("lambda*2", **{"lambda": free.Semicircle()})) == "2 lambda"
    assert repr(free.parse("x+" * 900 + "x", **LAWS)) == "901 x"
    (c,) = free.variables(free.Circular(), names=["c"])
    assert repr(free.parse("adjoint(c)*c", c=free.Circular())) == repr(c.adjoint() * c)
    assert repr(free.parse("sqrt(y)*x*sqrt(y)*sqrt(4)", **LAWS)) == "2 sqrt(y) x sqrt(y)"
    with pytest.raises(ValueError, match="needs the law"):
        free.parse("x")
    with pytest.raises(TypeError, match="laws belong to an expression given as text"):
        free.spectrum(family()[0], x=free.Semicircle())


@given(st.text(alphabet="xy012.+-*/^()[]=, _'\"je\\", max_size=40))
def test_no_text_does_anything_but_parse_or_fail_clearly(text):
    try:
        result = free.parse(text, **LAWS)
    except ValueError:
        return
    assert isinstance(result, free.Expression)
