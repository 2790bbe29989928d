"""Callbacks for other people's training loops: one module a framework, each with a `ModelTracerCallback`."""
