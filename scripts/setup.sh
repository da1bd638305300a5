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
# Needs git, a C++ compiler, CMake and Node 20 or newer. Everything made lies in .toolchain/ and
# node_modules/; delete them to start afresh. `source .toolchain/env.sh` puts em++ on PATH.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
toolchain=$root/.toolchain
parts=$root/scripts/setup

for part in progress packages include_dir debian_archive emscripten protobuf_wasm node_modules environment; do
  source "$parts/$part.sh"
done

what=${1:-all}
case $what in
  native) wanted="native" ;;
  wasm) wanted="native wasm" ;;
  node) wanted="node" ;;
  browser) wanted="browser" ;;
  all) wanted="native wasm node browser" ;;
  *)
    sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
wants() { [[ " $wanted " == *" $1 "* ]]; }

mkdir -p "$toolchain/stamps" "$toolchain/logs"
take_turn

check_base_tools
install_packages
wants native && make_include_dir
wants wasm && setup_emscripten
wants wasm && make_protobuf_wasm
wants node && install_node_modules
write_environment
say_ready
