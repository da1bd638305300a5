# Steps that show one line each with the seconds they took, stamps of what is done, and errors that say what to do.

steps_run=0

# fail MESSAGE [HINT…]: every hint on a line of its own.
fail() {
  printf 'setup: %s\n' "$1" >&2
  shift
  (($# == 0)) || printf '       %s\n' "$@" >&2
  exit 1
}

# run_step TEXT HINT COMMAND…: runs COMMAND with its output in a log; if it fails, shows the end of the log and HINT.
run_step() {
  local text=$1 hint=$2 began=$SECONDS status=0 log
  shift 2
  log=$toolchain/logs/$(tr -cs 'a-zA-Z0-9' '-' <<<"$text" | cut -c1-80 | sed 's/-*$//').log
  printf 'setup: %s … ' "$text"
  # The subshell keeps errexit, which a command tested by `if` or `||` would lose.
  set +e
  (
    set -e
    "$@"
  ) >"$log" 2>&1
  status=$?
  set -e
  if ((status != 0)); then
    printf 'failed after %d s\n' $((SECONDS - began))
    tail -n 15 "$log" | sed 's/^/  | /' >&2
    fail "$text: failed; the whole log is ${log#"$root"/}" "$hint"
  fi
  printf '%d s\n' $((SECONDS - began))
  steps_run=$((steps_run + 1))
}

# A step is done when its stamp holds the same key as now; the key names everything the result depends on.
is_done() { [[ -f $toolchain/stamps/$1 && $(<"$toolchain/stamps/$1") == "$2" ]]; }
mark_done() { printf '%s\n' "$2" >"$toolchain/stamps/$1"; }

hash_of() {
  if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi | cut -c1-64
}

version_at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

num_cores() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

# Two set-ups at once (say `npm start` and `npm test`) wait for each other.
take_turn() {
  command -v flock >/dev/null || return 0
  exec 9>"$toolchain/lock"
  flock --nonblock 9 && return 0
  echo 'setup: another set-up is running here, waiting for it …'
  flock --timeout 1800 9 || fail 'gave up waiting for the other set-up after 30 minutes'
}

# Silent in a script when there was nothing to do.
say_ready() {
  if ((steps_run > 0)) || [[ -t 1 ]]; then printf 'setup: %s ready (%d s)\n' "$what" "$SECONDS"; fi
}
