#!/usr/bin/env bash
# Prepares this machine to build and test tilekiln. Safe to run again: what is done is not done twice.
#
#   scripts/setup.sh [native|wasm|node|browser|all]
#
#   native   Debian packages for native builds and tests, .toolchain/include
#   wasm     native + Emscripten 3.1.69 or newer, protobuf-lite for wasm
#   node     node_modules, as package-lock.json says
#   browser  a Chromium for the browser tests
#   all      everything (the default)
#
# Needs git, a C++ compiler, CMake 3.25 and Node 20, or newer. All it makes lies in .toolchain/ and node_modules/:
# delete them to start afresh. `source .toolchain/env.sh` puts em++ on PATH.
#
# Taken from the environment: PROTOBUF_SOURCE, a protobuf source tree, where there is no Debian archive to get one from;
# CHROMIUM, the browser to use.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
toolchain=$root/.toolchain

for part in progress packages include_dir debian_archive emscripten protobuf_wasm node_modules environment; do
  source "$root/scripts/setup/$part.sh"
done

what=${1:-all}
case $what in
  native) wanted="native" ;;
  wasm) wanted="native wasm" ;;
  node) wanted="node" ;;
  browser) wanted="browser" ;;
  all) wanted="native wasm node browser" ;;
  *)
    sed -n '2,/^set /{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
wants() { [[ " $wanted " == *" $1 "* ]]; }

mkdir -p "$toolchain/stamps" "$toolchain/logs" "$toolchain/bin"
take_turn

install_packages
check_versions
if wants native; then make_include_dir; fi
if wants wasm; then
  choose_emscripten
  make_emscripten
  make_protobuf_wasm
fi
if wants node; then install_node_modules; fi
write_environment
say_ready
