"""What discovery costs, what pruning drops, and whether wrong rules are refused."""
