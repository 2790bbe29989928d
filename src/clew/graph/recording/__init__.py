"""Records a pipeline: what happens to values on their way, as steps of a graph."""
