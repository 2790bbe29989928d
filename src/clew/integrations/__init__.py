"""Callbacks for training frameworks: one module for each framework, each with a `ModelTracerCallback`."""
