"""Expressions and laws from text: all that is meant can be said, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshuffle import free
from reshuffle.free import parser

LETTERS = ["x=sc(1)", "y=mp(0.5, 0.2)"]


def family():
    return free.variables(free.Semicircle(1.0), free.MarchenkoPastur(0.5, 0.2), names=["x", "y"])


@pytest.mark.parametrize(
    ("text", "meaning"),
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
    assert repr(parser.parse(text, LETTERS)) == repr(meaning(*family()) + 0)


@pytest.mark.parametrize(
    ("text", "law"),
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a variable, a number or .* the text ends"),
        ("x +", "expected a variable, a number or .* at position 4, but the text ends"),
        ("x + )", 'there is "\\)"'),
        ("(x", r'expected "\)"'),
        ("x y", 'expected an operator or the end at position 3, but there is "y"'),
        ("2x", "expected an operator"),
        ("z", 'expected one of the variables x, y at position 1, but there is "z"'),
        ("x ** y", "expected a number"),
        ("x ** 0.5", "exponents must be whole numbers"),
        ("x ** 99", "exponents must be whole numbers between -16 and 16"),
        ("x / 0", "divides by 0"),
        ("x / (1 - 1)", "divides by 0"),
        ("(x - x)**-1", "divides by 0"),
        ("3", "must have a variable in it"),
        ("(x + y)**16", "at most 2000 terms"),
        ("1e999 * x", "beyond the range"),
        ("1e100 * 1e100 * x", "beyond 1e150"),
        ("x.real", 'there is "."'),
        ("x.__class__", 'there is "."'),
        ("__import__('os').system('ls')", 'there is "_"'),
        ("eval(x)", "expected one of the variables"),
        ("x[0]", "expected an operator"),
        ("lambda: x", "expected one of the variables"),
        ("x if x else y", "expected an operator"),
        ("x; y", 'there is ";"'),
        ("x\n+\0y", "there is"),
        ("(" * 100 + "x" + ")" * 100, "must not nest deeper"),
        ("-" * 100 + "x", "must not nest deeper"),
        ("x" + " + x" * 1000, "at most 2000 characters"),
    ],
)
def test_what_is_not_an_expression(text, message):
    with pytest.raises(ValueError, match=message):
        parser.parse(text, LETTERS)


@pytest.mark.parametrize(
    ("definitions", "message"),
    [
        ([], "needs the law of every variable"),
        (["x=sc()", "x=mp(1)"], "one of them twice"),
        (["x"], 'expected "="'),
        (["=sc()"], "expected the name of a variable"),
        (["x=gauss(1)"], r"expected a law \(affine, arcsine, .*there is \"gauss\""),
        (["x=sc"], r'expected "\("'),
        (["x=sc(1"], 'expected ","'),
        (["x=sc(1) + 1"], "expected an operator or the end"),
        (["x=sc(1, 2, 3)"], "too many positional arguments"),
        (["x=sc(width=2)"], "unexpected keyword argument 'width'"),
        (["x=sc(variance=1, 2)"], "expected another argument by name"),
        (["x=sc(a)"], 'expected "="'),
        (["x=mp(-1)"], "ratio must be a finite real number"),
        (["x=mp()"], "missing a required argument"),
        (["x=discrete([])"], "at least one number"),
        (["x=discrete([1, [2]])"], "expected a number"),
        (["x=sc(__import__('os'))"], "expected a number"),
        (["x=sc(open('f'))"], 'expected "="'),
        (["x=" + "affine(" * 60], "must not nest deeper"),
    ],
)
def test_what_is_not_a_law(definitions, message):
    with pytest.raises((ValueError, TypeError), match=message):
        parser.parse("x", definitions)


@given(st.text(alphabet="xy012.+-*/^()[]=, _'\"je\\", max_size=40))
def test_no_text_does_anything_but_parse_or_fail_clearly(text):
    try:
        result = parser.parse(text, LETTERS)
    except ValueError:
        return
    assert isinstance(result, free.Expression)
