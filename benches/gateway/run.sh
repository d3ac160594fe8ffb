#!/bin/sh
# Builds the gateway and the benchmark, installs smg, and runs both in front of the stand-in.
#
#     benches/gateway/run.sh [gateways] [turns] [streams]
#
# MODEL names a folder with a tokenizer and a chat template, SMG a folder for smg's virtual environment.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
model=$(cd "${MODEL:-$root/../shared/tokenizers/qwen3}" && pwd)
peer=${SMG:-$here/target/smg}
[ -x "$peer/bin/smg" ] || { python3 -m venv "$peer" && "$peer/bin/pip" install --quiet smg==1.13.0; }
cargo build --quiet --release --locked --manifest-path "$root/Cargo.toml" -p rolecall-cli --features gateway
cargo build --quiet --release --locked --manifest-path "$here/Cargo.toml"
exec taskset -c 0 "$here/target/release/rolecall-gateway-bench" "$model" "$root/target/release/rolecall" "$peer/bin/smg" "$@"
