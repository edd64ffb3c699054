"""Models and measurements to try tencache with."""
