#!/usr/bin/env bash
# guard-a-release.sh OLD NEW: fails if NEW is slower than OLD, or loses, repeats or refuses messages that OLD does not.
# NEW is a scenario, as in new.toml, or the URL of a broker. OLD is one, too: then both run in turn. Or it is a directory of earlier runs.
# brokermark's own options may follow. Leaves brokermark.xml (JUnit) and brokermark.md (a summary) in the current directory.
set -euo pipefail

old=$1 new=$2
shift 2
common=(--strict --set sweep.trials=10 --tolerance 10% --output runs --junit brokermark.xml --markdown brokermark.md)
code=0
# Where brokermark does not begin, it writes neither: those of an earlier call would be taken for its own.
rm -f brokermark.xml brokermark.md
if [[ -d $old ]]; then
    brokermark run "$new" --baseline "$old" "${common[@]}" "$@" || code=$?
else
    brokermark run "$old" --against "$new" "${common[@]}" "$@" || code=$?
fi
# GitHub shows this file on the page of the workflow.
[[ -z ${GITHUB_STEP_SUMMARY:-} || ! -f brokermark.md ]] || cat brokermark.md >>"$GITHUB_STEP_SUMMARY"
exit "$code"
