# What .ci/run and .ci/quick share: steps with their times, the environment, and the checks that need no test.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
scratch=$(mktemp -d)
times=()

step() { # ends the step before it
  end_step
  current=$1
  SECONDS=0
  printf '\n== %s\n' "$current"
}

end_step() {
  [ -n "${current:-}" ] || return 0
  times+=("$(printf '%5d s  %s' "$SECONDS" "$current")")
  total=$((${total:-0} + SECONDS))
  printf -- '-- %d s\n' "$SECONDS"
  current=""
}

finish() {
  local code=$?
  [ $code -eq 0 ] || printf '\n== Failed: %s\n' "${current:-}"
  end_step
  printf '\n'
  printf '%s\n' "${times[@]}"
  printf '%5d s  in all\n' "${total:-0}"
  rm -rf "$scratch"
}
trap finish EXIT

from_readme() { # the command in the fenced block that follows a mark
  "$python" - "$1" <<'PY'
import pathlib, re, sys
page = pathlib.Path("README.md").read_text(encoding="utf-8")
found = re.search(rf"<!-- {sys.argv[1]} -->\s*```[a-z]*\n(.+?)\n```", page, re.DOTALL)
sys.exit(f"README.md has no block after {sys.argv[1]}") if found is None else print(found[1])
PY
}

environment() { # the README's test command up to the tests
  local command
  step "The environment"
  command=$(from_readme test-command)
  bash -euo pipefail -c "${command% && *}" >"$scratch/pip" || { cat "$scratch/pip"; return 1; }
}

checks() {
  step "Format"
  .venv/bin/ruff format --check .

  step "Lint"
  .venv/bin/ruff check .

  step "Types"
  .venv/bin/pyright --pythonpath .venv/bin/python
  .venv/bin/python tests/docs/check_types.py  # the blocks of the pages

  step "Imports"
  .venv/bin/lint-imports --no-cache
}
