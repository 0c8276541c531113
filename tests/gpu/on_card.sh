# shellcheck shell=bash
# This engine and a plain server beside it, on the card, over HTTP. Sourced after something has defined MODEL (a model
# folder whose weights vLLM invents), OUT (where results go) and made vLLM and this checkout importable.
PORT=8021
start_ours() {  # ours [COMMAND_LINE_SETTING=VALUE ...]
    began=$(date +%s)
    mapfile -d '' -t flags < <(python3 - "$MODEL" "$PORT" "$@" <<'PY'
import json, sys
from pathlib import Path
from engine.server import EngineSettings, command_line
model, port, *changes = sys.argv[1:]
given = {key: json.loads(value) for key, _, value in (change.partition("=") for change in changes)}
settings = EngineSettings(
    model=model, state_dir=Path("state"), cache_dir=Path("cache"), device="cuda",
    **{"profile": "141gb", "max_model_len": 131072, "extra_args": ("--load-format", "dummy"), **given})
print("\0".join(command_line(settings, Path(model), int(port), name="qwen3-4b", device="cuda")), end="\0")
PY
    )
    export VLLM_API_KEY=a-key READONCE_PLUGIN_STATE=$(mktemp -d)
    # What `environment` sets: tests/engine/test_server.py.
    STEP_MS=${STEP_MS:-$(python3 -c 'from engine.profiles import PROFILES; print(PROFILES["141gb"].step_ms)')}
    READONCE_PLUGIN_STEP_MS=$STEP_MS VLLM_PLUGINS=readonce VLLM_WORKER_MULTIPROC_METHOD=spawn setsid nohup python3 -m vllm.entrypoints.openai.api_server \
        "${flags[@]}" > "$OUT/ours-$PORT.log" 2>&1 &
    OURS=$!
    until curl -sf "http://127.0.0.1:$PORT/health" > /dev/null; do
        kill -0 $OURS 2> /dev/null || { tail -20 "$OUT/ours-$PORT.log"; return 1; }
        sleep 1
    done
    echo "ready after $(( $(date +%s) - began )) s"
}
stop_ours() {
    kill $OURS; wait $OURS 2> /dev/null
    unset VLLM_API_KEY
    sleep 3
}
measure() {  # measure URL SYSTEM SCENARIO...
    url=$1; system=$2; shift 2
    python3 -m engine.bench --url "$url" --tokenizer "$MODEL/tokenizer.json" --systems "$system" --scale gpu "$@" \
        2>> "$OUT/bench.err" | tee -a "$OUT/$system.jsonl" | cut -c1-520
}
