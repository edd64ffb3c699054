"""When waiting jobs will start: a distribution, from rolling the core forward under drawn run times and arrivals."""

from rltune.forecast.rolls import forecast
from rltune.forecast.start_forecast import Forecast, JobForecast, StartCalibration

__all__ = ["Forecast", "JobForecast", "StartCalibration", "forecast"]
