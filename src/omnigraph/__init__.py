"""OmniGraph: a typed property graph on Lance datasets, with branches and a Spark pipeline."""

__version__ = "0.1.0"
