"""Search strategies beside each other: what each finds on networks of the zoo, by prices of a fixed roofline.

``python -m benchmarks strategies [NETWORK ...]``. Nothing is measured, so that all strategies see the same
costs on every machine.
"""

from __future__ import annotations

import argparse
import sys
import time

from superopt import zoo
from superopt.journeys import in_process as api
from superopt.onnx_io import lift, load_model
from superopt.optimizer.cost import GraphCost, Nominal, Sizes
from superopt.optimizer.search import RuleSet, SearchLimits, Watch, searches
from superopt.substitution_db import open_database

NETWORKS = ("bert-base", "light-densenet121", "light-inception_v1", "nasrnn", "resnext50", "squeezenet")
SECONDS = 15.0


def main() -> None:
    """Prints a line for each network and strategy."""
    parser = argparse.ArgumentParser(prog="benchmarks strategies", description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    networks = parser.parse_args().networks
    with open_database(None) as database:
        rules = RuleSet(api.verified_substitutions(database))
    for network in networks:
        graph = lift(load_model(zoo.build(network).SerializeToString())).graph
        for name, search in searches().items():
            start = GraphCost.of(graph, Nominal(), Sizes(graph, {}))
            began = time.process_time()
            watch = Watch(SearchLimits(deadline=time.monotonic() + SECONDS))
            result = search.run(start, rules, watch)
            seconds = time.process_time() - began
            near = next(at for at, cost in result.curve if cost <= 1.01 * result.best.total)
            sys.stdout.write(
                f"{network:20} {name:12} {start.total:12,.0f} -> {result.best.total:12,.0f} us  "
                f"within 1% after {near:5.1f} s  {result.candidates / seconds:5,.0f} candidates a second  "
                f"{len(result.trace):4} steps\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
