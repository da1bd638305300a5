# Debian packages, installed when something is missing and the set-up runs as root.

native_packages=(
  g++ cmake ninja-build
  protobuf-compiler libprotobuf-dev libonnx-dev    # parsing ONNX; onnx.proto
  flatbuffers-compiler libflatbuffers-dev          # the bundle's schema
  libsimde-dev                                     # wasm intrinsics, natively
  libxxhash-dev libcli11-dev doctest-dev
  libonnx-testdata                                 # ONNX's own operator vectors
  clang-14 libclang-rt-14-dev clang-format         # libFuzzer; the formatter
)
wasm_packages=(
  clang-19 lld-19 llvm-19 python3                  # what Emscripten runs
  dpkg-dev xz-utils                                # unpacking Debian sources
)
emcc_on_path_packages=(dpkg-dev xz-utils)
browser_packages=(chromium)

check_base_tools() {
  local version
  command -v node >/dev/null || fail 'node is missing' 'Install Node 20 or newer.'
  version=$(node --version)
  version_at_least "${version#v}" 20 || fail "node is $version, but 20 or newer is needed"
  if wants native; then
    command -v cmake >/dev/null || fail 'cmake is missing' 'Install CMake 3.25 or newer.'
  fi
}

find_chromium() {
  local name
  for name in ${CHROMIUM:-} chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" && return 0
  done
  return 1
}

# Prints the names among its arguments that are not installed.
missing_packages() {
  local installed
  installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p')
  printf '%s\n' "$@" | sort -u | grep -vxF "$installed" || true
}

install_packages() {
  local packages=() missing
  wants native && packages+=("${native_packages[@]}")
  if wants wasm; then
    if have_new_emcc; then packages+=("${emcc_on_path_packages[@]}"); else packages+=("${wasm_packages[@]}"); fi
  fi
  wants browser && ! find_chromium >/dev/null && packages+=("${browser_packages[@]}")
  ((${#packages[@]})) || return 0

  if ! command -v apt-get >/dev/null; then
    check_tools_without_apt
    return 0
  fi
  missing=$(missing_packages "${packages[@]}" | tr '\n' ' ')
  missing=${missing% }
  [[ -n $missing ]] || return 0
  if ((EUID != 0)); then
    fail 'Debian packages are missing, and only root can install them. Run:' \
      "apt-get install --no-install-recommends $missing"
  fi
  run_step "Debian packages: $missing" \
    'Is the network up? Does `apt-get update` work? Then run this script again.' \
    apt_install $missing
}

apt_install() {
  local options=(-o DPkg::Lock::Timeout=600 -o Acquire::Retries=2 -o Acquire::http::Timeout=30)
  # A dead third-party source makes `update` fail although Debian's own are fine; `install` is the judge.
  apt-get "${options[@]}" update || true
  DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install --yes --no-install-recommends "$@"
}

# Not a Debian: say which tools are missing, and leave it to the user how to get them.
check_tools_without_apt() {
  local tool missing=()
  for tool in c++ ninja protoc flatc; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  ((${#missing[@]} == 0)) || fail "missing: ${missing[*]}" \
    'This machine has no apt-get. Install them, with the headers of protobuf, FlatBuffers,' \
    'SIMDe, doctest, CLI11, xxHash and ONNX (onnx.proto) in /usr/local/include, and run this script again.'
}
