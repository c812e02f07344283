#!/usr/bin/env bash
# Plans a network for the devices of cluster.yaml. Usage: plan.sh DIRECTORY [BUDGET]
set -euo pipefail
directory=$1
budget=${2:-60}
cluster=$(dirname "$0")/cluster.yaml
mkdir -p "$directory"

superopt zoo build candle-uno -o "$directory/model.onnx" --batch 64
superopt optimize "$directory/model.onnx" -o "$directory/planned.onnx" --cluster "$cluster" \
    --objective training --budget "$budget" --report "$directory/plan.json" --report "$directory/plan.html"
superopt shards "$directory/model.onnx" "$directory/plan.json" -o "$directory/shards"
superopt timeline "$directory/model.onnx" "$directory/plan.json" --cluster "$cluster" -o "$directory/timeline.json"
