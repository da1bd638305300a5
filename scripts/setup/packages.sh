# Debian packages, installed when something is missing and the set-up runs as root.

native_packages=(
  protobuf-compiler libprotobuf-dev libonnx-dev # parsing ONNX; onnx.proto
  flatbuffers-compiler libflatbuffers-dev       # the bundle's schema
  libsimde-dev                                  # wasm intrinsics, natively
  libxxhash-dev libcli11-dev doctest-dev
  rapidjson-dev                                 # recipes and sidecars that users write
  libonnx-testdata                              # ONNX's own operator vectors
  clang-format
)
emscripten_packages=(clang-19 lld-19 llvm-19 python3)
source_packages=(dpkg-dev xz-utils) # unpacking Debian sources

install_packages() {
  local packages=() missing
  if wants native; then
    packages+=("${native_packages[@]}" $(fuzzing_packages))
    # Those that many have from elsewhere.
    command -v c++ >/dev/null || packages+=(g++)
    command -v cmake >/dev/null || packages+=(cmake)
    command -v ninja >/dev/null || packages+=(ninja-build)
  fi
  if wants wasm; then
    find_new_emcc >/dev/null || packages+=("${emscripten_packages[@]}")
    [[ -n ${PROTOBUF_SOURCE:-} ]] || packages+=("${source_packages[@]}")
  fi
  if wants browser && ! find_chromium >/dev/null; then packages+=(chromium); fi
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
  run_step "installing $(wc -w <<<"$missing" | tr -d ' ') Debian packages" \
    "Is the network up? Does this work? apt-get update && apt-get install --no-install-recommends $missing" \
    apt_install $missing
}

# libFuzzer comes with clang's runtime. Debian 12 has clang 14 for it, later ones do not.
fuzzing_packages() {
  if dpkg-query --show clang-14 libclang-rt-14-dev >/dev/null 2>&1 ||
    [[ $(apt-cache policy clang-14 2>/dev/null) == *'Candidate: 1:'* ]]; then
    echo clang-14 libclang-rt-14-dev
  else
    echo clang-19 libclang-rt-19-dev
  fi
}

find_chromium() {
  local name
  for name in ${CHROMIUM:+"$CHROMIUM"} chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" && return 0
  done
  return 1
}

# Prints the names among its arguments that are not installed.
missing_packages() {
  local installed
  installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p')
  printf '%s\n' "$@" | sort -u | grep -vxF "${installed:-none}" || true
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
  if wants native; then
    for tool in c++ cmake ninja protoc flatc; do
      command -v "$tool" >/dev/null || missing+=("$tool")
    done
  fi
  if wants browser && ! find_chromium >/dev/null; then missing+=(chromium); fi
  ((${#missing[@]} == 0)) || fail "missing on PATH: ${missing[*]}" \
    'This machine has no apt-get, so they have to be installed by hand, with the headers of protobuf,' \
    'FlatBuffers, SIMDe, doctest, CLI11, RapidJSON, xxHash and ONNX (onnx.proto). Then run this script again.'
}

check_versions() {
  local version
  if wants native; then
    version=$(cmake --version | sed -n '1s/.* //p')
    version_at_least "$version" 3.25 || fail "cmake is $version, but 3.25 or newer is needed"
  fi
  if wants wasm || wants node; then
    command -v node >/dev/null || fail 'node is missing' 'Install Node 20 or newer.'
    version=$(node --version)
    version_at_least "${version#v}" 20 || fail "node is $version, but 20 or newer is needed"
  fi
}
