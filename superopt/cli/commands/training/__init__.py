"""Commands of training: train-graph, train, strategy."""
