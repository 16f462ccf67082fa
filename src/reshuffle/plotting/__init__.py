"""Pictures of results: functions that draw on `ax`, or on pyplot's current axes, and return them."""

from reshuffle.plotting.epoch_pictures import curve, mark_best, risk_curve, simulated_band
from reshuffle.plotting.picture_style import COLOURS as COLOURS
from reshuffle.plotting.picture_style import SCHEME_COLOURS as SCHEME_COLOURS
from reshuffle.plotting.picture_style import axes, figure, plain, scale_values, scheme_colour, scheme_label
from reshuffle.plotting.planning_pictures import explanation, plan_map, scheme_comparison, step_match
from reshuffle.plotting.spectrum_pictures import spectrum_curve, spectrum_histogram
from reshuffle.plotting.spectrum_pictures import spectrum_points as spectrum_points
from reshuffle.plotting.sweep_pictures import heat_map, sweep_curves

__all__ = [
    "axes",
    "curve",
    "explanation",
    "figure",
    "heat_map",
    "mark_best",
    "plain",
    "plan_map",
    "risk_curve",
    "scale_values",
    "scheme_colour",
    "scheme_comparison",
    "scheme_label",
    "simulated_band",
    "spectrum_curve",
    "spectrum_histogram",
    "step_match",
    "sweep_curves",
]
