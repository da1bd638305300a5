# protobuf-lite for wasm, from Debian's source of the very version that protoc and the native library have:
# .toolchain/protobuf-wasm/include and lib/libprotobuf-lite.a, for a single thread.

make_protobuf_wasm() {
  local key version out=$toolchain/protobuf-wasm build=$toolchain/protobuf-build source
  if [[ -n ${PROTOBUF_SOURCE:-} ]]; then
    version=$(cd "$PROTOBUF_SOURCE" && pwd)
    source=$version
  elif ! command -v dpkg-query >/dev/null; then
    [[ -d $out ]] && return 0
    fail 'found no Debian archive to get the source of protobuf from' \
      "Unpack the source of the version that \`protoc --version\` says and run PROTOBUF_SOURCE=<that folder> scripts/setup.sh $what"
  else
    version=$(dpkg-query --show --showformat='${source:Version}' libprotobuf-dev)
    source=$build/source
  fi
  key="1 $version $emscripten_root"
  if is_done protobuf_wasm "$key" && [[ -d $out ]]; then return 0; fi
  if [[ -z ${PROTOBUF_SOURCE:-} ]]; then
    run_step "protobuf $version: fetching the source" \
      'Is the network up? The source comes from the Debian archive this machine uses.' fetch_protobuf "$version" "$build"
  fi
  run_step 'protobuf-lite: building for wasm' 'Delete .toolchain/protobuf-build and run this script again.' \
    build_protobuf "$source" "$build" "$out"
  rm -rf "$build"
  mark_done protobuf_wasm "$key"
}

fetch_protobuf() {
  local version=$1 build=$2
  rm -rf "$build"
  mkdir -p "$build/archive"
  debian_sources | prepare_archive "$build/archive" deb-src
  cd "$build/archive/files"
  archive_apt "$build/archive" source --download-only "protobuf=$version"
  dpkg-source --no-check --extract protobuf_*.dsc "$build/source"
}

# Without protobuf's own CMake files: their checks of the compiler take longer than compiling.
build_protobuf() {
  local source=$1 build=$2 out=$3
  rm -rf "$build/out" "$build/objects"
  mkdir -p "$build/out/include" "$build/out/lib"
  (cd "$source/src" && find google/protobuf \( -name '*.h' -o -name '*.inc' \) -print | tar --create --files-from -) |
    tar --extract --directory "$build/out/include"
  local flags=(-std=c++17 -Oz -DNDEBUG -w -fno-exceptions -fno-rtti -ffunction-sections -fdata-sections)
  mkdir -p "$build/objects"
  cd "$build/objects"
  # A few files at a time, as starting em++ takes a while.
  sed -nE 's|.*/(src/google/protobuf/.*\.cc).*|\1|p' "$source/cmake/libprotobuf-lite.cmake" |
    sed "s|^|$source/|" | tr '\n' '\0' |
    xargs -0 -n 5 -P "$(num_cores)" "$emscripten_root/em++" "${flags[@]}" "-I$source/src" -c
  "$emscripten_root/emar" crs "$build/out/lib/libprotobuf-lite.a" ./*.o
  rm -rf "$out"
  mv "$build/out" "$out"
}
