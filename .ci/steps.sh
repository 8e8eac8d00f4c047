# What .ci/run and .ci/quick share: steps with their times, the environment, and the checks that need no test.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
scratch=$(mktemp -d)
chmod 755 "$scratch"  # servers that tests start run as another user
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

as_on_a_fresh_machine() { # a command of the README in the clone $scratch/fresh/clone, without what this script has set, and with temporary files elsewhere
  local command
  command=$(from_readme "$1")
  mkdir -p "$scratch/fresh/tmp"
  (cd "$scratch/fresh/clone" && env -u PYTEST_ADDOPTS -u RXWORKER_REQUIRE_ALL -u RXWORKER_EVERY_CUT TMPDIR="$scratch/fresh/tmp" \
    bash -euo pipefail -c "$command" </dev/null)
}

once_more() { # in a folder, by this Python: the few tests that failed there, alone. What fails again is a fault; what passes depended on the load of the machine, and is printed
  local names failed="$1/.pytest_cache/v/cache/lastfailed"
  [ -f "$failed" ] && [[ $(grep -c ": true" "$failed") == [123] ]] || return 1
  printf '\n-- Failed, now alone:\n%s\n' "$(<"$failed")"
  # By their names: --last-failed runs all tests where it does not find one, such as those of a folder that has to be named.
  mapfile -t names < <("$python" -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$failed")
  (cd "$1" && "${@:2}" -m pytest -q "${names[@]}")
}

starts() { # the program of a version of Python that starts here
  local candidate
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    if "$candidate" --version >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

demo() { "$1" demo --fast </dev/null | tail -n 4; }

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

whole() { # tests, with every cut, kill, store, key and product of cases, and 100,000 changes of what is stored
  RXWORKER_EVERY_CUT=1 .venv/bin/python -m pytest -q -n 4 --dist worksteal "$@" \
    -k "not (test_figures or test_recordings) or count_over_the_records or cut_in_two or byte_by_byte or under_any_cut or ends_early" || once_more . env RXWORKER_EVERY_CUT=1 .venv/bin/python
}

packages() { # the wheel and the source distribution, into a folder: built twice and the same, valid, with links that an index can follow, and installed elsewhere
  local built=$1
  export RXWORKER_REPOSITORY SOURCE_DATE_EPOCH
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  step "The files that other projects wrote are those of the registry"
  npm install --silent --no-audit --no-fund --no-package-lock --prefix tests/integration/page
  "$python" tests/ui/vendored.py
  step "The packages, built twice"
  "$python" -m venv "$scratch/build"
  "$scratch/build/bin/pip" install -q build twine
  mkdir -p "$built" "$scratch/again"
  "$scratch/build/bin/python" -m build --outdir "$built" . >"$scratch/built" || { cat "$scratch/built"; return 1; }
  "$scratch/build/bin/python" -m build --outdir "$scratch/again" . >"$scratch/built" || { cat "$scratch/built"; return 1; }
  (cd "$built" && sha256sum ./*) >"$scratch/sums"
  (cd "$scratch/again" && sha256sum --check --quiet "$scratch/sums")
  "$scratch/build/bin/twine" check --strict "$built"/*
  if unzip -p "$built"/rxworker-*.whl '*/METADATA' | grep -nE '\]\((docs|examples|\.)'; then
    echo "these links lead nowhere on a package index: see .ci/metadata_hook.py"
    return 1
  fi

  step "The wheel, installed elsewhere"
  "$python" -m venv "$scratch/venv"
  "$scratch/venv/bin/pip" install -q "$(ls "$built"/rxworker-*.whl)[cli]"
  (cd "$scratch" && demo "$scratch/venv/bin/rxworker" && "$scratch/venv/bin/python" -m rxworker --version && "$scratch/venv/bin/rxworker" docs tools#which-types >/dev/null)

  step "The projects of the templates, in that environment"
  "$scratch/venv/bin/pip" install -q "$(ls "$built"/rxworker-*.whl)[cli,mcp]" pytest
  for template in chat board tool-server moderator fleet; do
    "$scratch/venv/bin/rxworker" new "$template" "$scratch/$template" >/dev/null
    (cd "$scratch/$template" && "$scratch/venv/bin/python" -m pytest -q)
  done
}
